// The part of the table of limits (limits.ts) about signing keys.

export const KEY_LIMITS = {
  /**
   * The keys that an edge has in its life: each is one more link in the document of keys and in the
   * edge's environment. A new one every three months lasts for eight years.
   */
  edge_keys: 32,
  /** Of these, up to which `keys rotate` brings one. The others are for thefts: `keys distrust`. */
  edge_keys_rotated: 24,
  /** The keys that a worker has in its life: each one stays in the document of keys. */
  worker_keys: 32,
  /** Vault keys at a time, until secrets are sealed again: opening a value tries each key. */
  vault_keys: 4,
  /** Of these, up to which `keys rotate` brings one, so that a distrust needs no `keys forget` first. */
  vault_keys_rotated: 3,
  /** A root signer may ask a person before it signs. Its answer has one signature. */
  root_signer_s: 60,
  root_signer_bytes: 4_096,
  /**
   * How long an earlier edge key's signatures count after its successor starts to sign. The parts of an
   * edge may get the new key one after the other.
   */
  key_overlap_s: 3_600,
} as const
