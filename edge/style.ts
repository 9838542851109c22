// The look of our pages: one sheet, inline, for small screens first, in light and dark.

export const approvalStyle = `
:root{--ink:#16181d;--soft:#5c6370;--paper:#fff;--line:#d9dce3;--wash:#f4f5f8;--go:#0b6b3a;--no:#a3231f;--warn:#8a5a00}
@media (prefers-color-scheme:dark){:root{--ink:#e9ebf0;--soft:#a3aab8;--paper:#14161a;--line:#343943;--wash:#1d2026;--go:#2f9e64;--no:#e0605a;--warn:#e0a63a}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:44rem;margin:0 auto;padding:1.25rem 1rem 3rem}
h1{font-size:1.4rem;line-height:1.25;margin:0 0 .75rem;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:2rem 0 .5rem}
dl{margin:1rem 0}
dt{color:var(--soft);font-size:.85rem;margin-top:.9rem}
dd{margin:.1rem 0 0;overflow-wrap:anywhere}
pre{background:var(--wash);border:1px solid var(--line);border-radius:.5rem;padding:.75rem;margin:.25rem 0;overflow:auto;max-height:45vh;white-space:pre-wrap;overflow-wrap:anywhere;font:14px/1.45 ui-monospace,monospace}
code{font:13px ui-monospace,monospace;overflow-wrap:anywhere}
.quiet{color:var(--soft);font-size:.9rem}
.badge,.outcome{display:inline-block;border-radius:.5rem;padding:.2rem .6rem;border:1px solid currentColor;font-size:.9rem;margin:0}
.outcome{display:block;font-size:1rem;padding:.6rem .8rem}
.critical,.high,.denied{color:var(--no)}.medium,.expired,.cancelled{color:var(--warn)}.low,.approved{color:var(--go)}
label{display:block;font-size:.9rem;margin-top:1rem}
textarea{width:100%;font:inherit;color:inherit;background:var(--wash);border:1px solid var(--line);border-radius:.5rem;padding:.5rem}
.buttons{display:grid;grid-template-columns:1fr 1fr;gap:.75rem;margin-top:.75rem}
button{font:inherit;font-weight:600;padding:.85rem;border-radius:.6rem;border:1px solid transparent;cursor:pointer;min-height:3rem}
button.approve{background:#0b6b3a;color:#fff}button.deny{background:transparent;color:var(--no);border-color:currentColor}
:focus-visible{outline:3px solid #3b82f6;outline-offset:2px}
table{border-collapse:collapse;width:100%;font-size:.9rem}td,th{text-align:left;padding:.35rem .5rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}
`
