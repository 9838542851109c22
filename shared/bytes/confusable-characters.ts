// Which characters make a text look like another. Pure; what is done about them is up to who shows or takes the text.

/** Controls, bidirectional and invisible ones, blanks that are no space. */
export const DECEIVING =
  /(?![\n ])[\p{Cc}\p{Cf}\p{Zs}\p{Zl}\p{Zp}\p{Co}\p{Cn}\p{Default_Ignorable_Code_Point}\u2800]/u
