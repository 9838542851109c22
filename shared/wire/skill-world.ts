// The world of a skill, `countersign:skill@0.1.0`, in WIT: what the edge gives, and what authors build against, to the letter. Whoever adds
// to it adds the exact types to edge/skills/component/world.ts and the host's side to edge/skills/execution/isolate.ts.

export const WORLD = `package countersign:skill@0.1.0;

/// Kept with the call, for whoever reads it: 64 KiB in all, the rest is dropped.
interface log {
  write: func(level: string, text: string);
}

/// Milliseconds since 1970, by the edge's clock, when the call began. It stands still while a call runs.
interface clock {
  now: func() -> u64;
}

/// 65,536 bytes at a time, at the most.
interface random {
  bytes: func(count: u32) -> list<u8>;
}

/// Requests to the hosts, by the methods, that the manifest names; any other ends the call. \`headers\` are lines, \`name: value\`. Redirects
/// are not followed: what asks again is judged again. The error is a sentence: nobody answered, or there was more than the call may receive.
interface http {
  record response {
    status: u16,
    headers: list<tuple<string, string>>,
    body: list<u8>,
  }
  request: func(method: string, url: string, headers: string, body: list<u8>) -> result<response, string>;
}

/// A secret that the manifest names; any other ends the call. One that only a host is to see is better a credential of the manifest.
interface secrets {
  get: func(name: string) -> result<string, string>;
}

/// What the skill keeps from call to call, in all its versions, under the prefixes that the manifest names; another key ends the call. A key is
/// 1 to 256 of letters, digits, \`_\`, \`.\`, \`/\` and \`-\`, begins with a letter or digit, and has no segment \`..\`. The error is a sentence: what is no
/// key; more than 256 KiB under one key, 8 MiB or 10,000 keys; more than 1,000 keys that begin so. Each call of a function stands for itself.
interface kv {
  get: func(key: string) -> result<option<list<u8>>, string>;
  set: func(key: string, value: list<u8>) -> result<_, string>;
  delete: func(key: string) -> result<_, string>;
  keys: func(prefix: string) -> result<list<string>, string>;
}

/// A text to people, through a channel that the manifest names; another one ends the call. It is shown as it is, and tells where it comes from. The
/// error is a sentence: the channel lets no skills write; more than 2,000 characters; more than 5 in one call, or 60 within an hour.
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
  /// \`tool\` is one of the manifest's, \`input\` its arguments as JSON. The result is JSON; an error is a sentence for whoever called.
  export run: func(tool: string, input: string) -> result<string, string>;
}
`
