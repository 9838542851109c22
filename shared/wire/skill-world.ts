// The world of a skill, `countersign:skill@0.1.0`, in WIT: the interfaces that the edge provides
// and that authors build against. An addition also needs its exact types in
// edge/skills/component/world.ts and its host side in edge/skills/execution/isolate.ts.

export const WORLD = `package countersign:skill@0.1.0;

/// Log lines, stored with the call. Output beyond 64 KiB per call is dropped.
interface log {
  write: func(level: string, text: string);
}

/// The edge's clock when the call began, in milliseconds since 1970. It does not advance during a call.
interface clock {
  now: func() -> u64;
}

/// Random bytes, at most 65,536 at a time.
interface random {
  bytes: func(count: u32) -> list<u8>;
}

/// Requests to hosts and with methods that the manifest names; any other request ends the call.
/// \`headers\` are lines, \`name: value\`. Redirects are not followed, because each request is checked.
/// The error is a sentence: the host did not answer, or its response was larger than the call may receive.
interface http {
  record response {
    status: u16,
    headers: list<tuple<string, string>>,
    body: list<u8>,
  }
  request: func(method: string, url: string, headers: string, body: list<u8>) -> result<response, string>;
}

/// Secrets that the manifest names; any other name ends the call. For a secret that only a host needs,
/// prefer a credential in the manifest.
interface secrets {
  get: func(name: string) -> result<string, string>;
}

/// Storage between calls, shared by all versions of the skill, under prefixes that the manifest names;
/// any other key ends the call. A key has 1 to 256 letters, digits, \`_\`, \`.\`, \`/\` and \`-\`, begins with a
/// letter or digit, and has no segment \`..\`. The error is a sentence: an invalid key; more than 256 KiB
/// under one key, 8 MiB or 10,000 keys in all; more than 1,000 keys with the prefix. Each function call
/// takes effect separately: there are no transactions.
interface kv {
  get: func(key: string) -> result<option<list<u8>>, string>;
  set: func(key: string, value: list<u8>) -> result<_, string>;
  delete: func(key: string) -> result<_, string>;
  keys: func(prefix: string) -> result<list<string>, string>;
}

/// Posts a text to people through a channel that the manifest names; any other channel ends the call.
/// It is shown unchanged, with its origin. The error is a sentence: the channel accepts no notices of
/// skills; more than 2,000 characters; more than 5 posts in one call, or 60 within an hour.
interface channel {
  post: func(channel: string, text: string) -> result<_, string>;
}

world skill {
  import log;
  import clock;
  import random;
  import http;
  import secrets;
  import kv;
  import channel;
  /// \`tool\` is a tool of the manifest, \`input\` its arguments as JSON. The result is JSON; an error is a
  /// sentence for the caller.
  export run: func(tool: string, input: string) -> result<string, string>;
}
`
