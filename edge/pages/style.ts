// The style sheet of our pages: inline, small screens first, light and dark. Every pair of text and
// background has a contrast of at least 4.5:1 and every control is at least 44 px high
// (test/edge/pages/approval-page.test.ts measures both).

export const pageStyle = `
:root{color-scheme:light dark;--ink:#15181d;--soft:#565d69;--paper:#fff;--wash:#f3f5f8;--line:#d5dae2;--field:#8b929e;
--go:#0b6b3a;--on-go:#fff;--go-wash:#e6f4ec;--no:#a3231f;--no-wash:#fdecea;--warn:#7a4f00;--warn-wash:#fdf3dc;--focus:#1d5fd1}
@media (prefers-color-scheme:dark){:root{--ink:#e8ebf0;--soft:#a6adba;--paper:#111418;--wash:#1a1f26;--line:#333b46;--field:#6f7885;
--go:#4cc38a;--on-go:#06170d;--go-wash:#10281c;--no:#ff8f87;--no-wash:#331715;--warn:#f0bb5a;--warn-wash:#2d2310;--focus:#7fb0ff}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;overflow-wrap:anywhere;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,-apple-system,Segoe UI,Roboto,sans-serif}
header,main{max-width:42rem;margin:0 auto;padding:0 1rem}
header{padding-top:1rem}
main{padding-bottom:2rem}
.brand{font-size:.8125rem;font-weight:600;letter-spacing:.02em;color:var(--soft)}
h1{font-size:1.375rem;line-height:1.25;letter-spacing:-.01em;margin:.75rem 0 .5rem;overflow-wrap:anywhere;text-wrap:balance}
h2{font-size:1.0625rem;line-height:1.3;margin:1.75rem 0 .25rem;overflow-wrap:anywhere}
p{margin:.5rem 0}
a{color:var(--focus)}
.quiet{color:var(--soft);font-size:.875rem}
.tags{display:flex;flex-wrap:wrap;align-items:center;gap:.375rem .75rem;margin:0 0 .5rem}
.tag{border-radius:1rem;padding:.125rem .625rem;font-size:.8125rem;font-weight:600;white-space:nowrap}
.tag.low{color:var(--go);background:var(--go-wash)}
.tag.medium{color:var(--warn);background:var(--warn-wash)}
.tag.high,.tag.critical{color:var(--no);background:var(--no-wash)}
dl{margin:.75rem 0}
dt{color:var(--soft);font-size:.8125rem;font-weight:600;margin-top:1rem}
dd{margin:.125rem 0 0;overflow-wrap:anywhere}
pre,code{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
code{font-size:.875em}
pre{margin:.25rem 0 .375rem;padding:.625rem .75rem;background:var(--wash);border:1px solid var(--line);border-radius:.5rem;font-size:.8125rem;line-height:1.5;white-space:pre-wrap;tab-size:2}
pre.says{font-family:inherit;font-size:.9375rem;border-left:.25rem solid var(--warn)}
pre.command{font-size:.875rem;font-weight:600;border-left:.25rem solid var(--soft)}
details{margin:1rem 0;border-top:1px solid var(--line);border-bottom:1px solid var(--line)}
details+details{margin-top:-1rem;border-top:0}
details .buttons{margin:.75rem 0 1rem}
summary{cursor:pointer;padding:.75rem 0;font-size:.875rem;font-weight:600;color:var(--soft)}
details dl{margin:0 0 1rem}
details dt:first-child{margin-top:0}
ul.files{list-style:none;margin:.25rem 0 0;padding:0}
ul.files li{padding:.25rem 0}
ul.files a{display:block;padding:.625rem 0}
.field{margin:1.25rem 0 0}
label{display:block;font-weight:600;font-size:.9375rem}
textarea{display:block;width:100%;min-height:4.25rem;margin-top:.375rem;padding:.5rem .625rem;font:inherit;color:inherit;background:var(--paper);border:1px solid var(--field);border-radius:.5rem;resize:vertical}
.answer{background:var(--paper);margin:0 -1rem;padding:.625rem 1rem calc(.75rem + env(safe-area-inset-bottom));border-top:1px solid transparent}
.answer p{margin:0 0 .5rem}
.buttons{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(8.5rem,100%),1fr));gap:.75rem}
button{font:inherit;overflow-wrap:normal;font-weight:600;min-height:3rem;padding:.625rem 1rem;border-radius:.625rem;border:1px solid transparent;cursor:pointer}
button.approve{background:var(--go);color:var(--on-go)}
button.deny{background:var(--paper);color:var(--no);border-color:currentColor}
button:hover{filter:brightness(1.08)}
button:active{transform:translateY(1px)}
@media (min-height:34rem){.answer{position:sticky;bottom:0;border-top-color:var(--line)}}
:focus-visible{outline:3px solid var(--focus);outline-offset:2px}
textarea.code{font:.8125rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
button.show{background:var(--paper);color:var(--ink);border-color:var(--field)}
textarea:focus-visible{outline-offset:0}
.outcome{margin:1rem 0;padding:.875rem 1rem;border-radius:.75rem;background:var(--wash);border-left:.25rem solid currentColor}
.outcome h1{margin:0 0 .25rem}
.outcome p{margin:.25rem 0;color:var(--ink);overflow-wrap:anywhere}
.outcome.approved{color:var(--go);background:var(--go-wash)}
.outcome.denied{color:var(--no);background:var(--no-wash)}
.outcome.expired,.outcome.cancelled,.outcome.pending{color:var(--warn);background:var(--warn-wash)}
.changes pre:not(.now){color:var(--soft);text-decoration:line-through}
.changes pre.now{border-left:.25rem solid var(--go)}
.alert{margin:1rem 0;padding:.625rem .875rem;border-radius:.5rem;background:var(--no-wash);color:var(--no)}
.alert a{color:inherit}
.alert.changed{background:var(--warn-wash);color:var(--warn)}
button:disabled{opacity:.5;cursor:default}
table{border-collapse:collapse;width:100%;font-size:.9375rem}
td,th{text-align:left;padding:.5rem .75rem .5rem 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
@media (min-width:48rem){.buttons{grid-template-columns:auto auto;justify-content:end}.buttons.one{grid-template-columns:auto}button{min-width:10rem}header{padding-top:1.5rem}h1{font-size:1.625rem}}
@media (prefers-reduced-motion:reduce){button:active{transform:none}}
@media print{.answer,.field,header{display:none}}
`
