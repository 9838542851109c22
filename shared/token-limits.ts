// Bounds of agents' tokens and of their issuers, each with its reason. They are a part of `LIMITS`,
// where code reads them.

const KiB = 1024

export const TOKEN_LIMITS = {
  /**
   * A JSON Web Token of an agent. Tokens that list many groups have about 4 KiB, and all headers of a
   * request may have 32 KiB.
   */
  token_bytes: 8 * KiB,
  /**
   * Tolerated clock difference to an issuer of tokens, and the longest life of a token: one that
   * lives longer is a key that nobody can rotate.
   */
  token_skew_s: 60,
  token_life_s: 24 * 3600,
  /** Verified tokens that an isolate caches. Each takes about 1 KB. */
  tokens_cached: 10_000,
  /**
   * Issuers of a tenant; audiences, rules, claims of one rule, required claims and static keys of
   * one issuer. The directory carries them all.
   */
  issuers: 32,
  issuer_audiences: 8,
  issuer_rules: 64,
  issuer_claims: 8,
  issuer_keys: 32,
  issuer_chars: 512,
  claim_chars: 512,
  /** A key set or discovery document of an issuer, and the time for fetching one. */
  key_set_bytes: 128 * KiB,
  key_set_ms: 5_000,
  /**
   * How long fetched keys are used before they are fetched again, and how long at most while their
   * issuer can't be reached.
   */
  key_set_fresh_ms: 5 * 60_000,
  key_set_stale_ms: 3600_000,
  /**
   * Shortest time between two fetches for tokens with an unknown key, which anybody can send, and
   * between two fetches after a failure.
   */
  key_set_unknown_ms: 60_000,
  key_set_retry_ms: 10_000,
  /**
   * How long a 401 repeats what is known of a tenant's issuers, and for how many tenants: anybody
   * can send requests without a key.
   */
  challenge_ms: 2_000,
  challenge_tenants: 256,
} as const
