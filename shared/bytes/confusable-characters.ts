// Characters that make a text look like another one (G07, G09). Callers decide whether to refuse or
// to escape them.

/**
 * Control, bidirectional and invisible characters, and whitespace other than the space and the
 * newline.
 */
export const CONFUSABLE =
  /(?![\n ])[\p{Cc}\p{Cf}\p{Zs}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Default_Ignorable_Code_Point}\u2800]/u
