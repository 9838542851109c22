// Additions of /docs to the common style: a side bar beside the text on wide screens, above it on
// others.

export const docsStyle = `
html{scroll-padding-top:1rem}
header,main{max-width:80rem}
.skip{position:absolute;left:-999rem}
.skip:focus{position:static}
nav.side{font-size:.9375rem}
nav.side ul{list-style:none;margin:0;padding:0 0 .5rem}
nav.side li a{display:block;padding:.625rem 0;text-decoration:none;color:var(--ink)}
nav.side li a:hover{text-decoration:underline}
nav.side details{margin:0;border:0;border-bottom:1px solid var(--line)}
nav.side summary{padding:.75rem 0;color:var(--ink)}
nav.side .menu{border-top:1px solid var(--line)}
nav.side input{width:100%;min-height:2.75rem;margin:.375rem 0 .75rem;padding:.5rem .625rem;font:inherit;color:inherit;background:var(--paper);border:1px solid var(--field);border-radius:.5rem}
h2{font-size:1.25rem;margin-top:2.5rem;padding-top:.5rem;border-top:1px solid var(--line)}
article{margin:0 0 2rem}
article h3{font-size:1rem;margin:1.5rem 0 .25rem}
article h3 a{color:inherit;text-decoration:none;display:inline-block;padding:.5rem 0}
article h3 a:hover{text-decoration:underline}
article h4{font-size:.875rem;margin:1rem 0 .25rem}
article details{margin:0;border:0}
article details+details{margin:0}
article summary{padding:.75rem 0}
article table{font-size:.875rem}
article td:first-child{width:28%}
article td:nth-child(2){width:20%}
td a{display:inline-block}
article:target h3,tr:target{background:var(--warn-wash)}
article details{position:relative}
article details button{position:absolute;right:0;top:0;min-width:0;min-height:2.75rem;padding:.25rem .75rem;font-size:.8125rem;background:var(--paper);color:var(--ink);border-color:var(--field)}
@media (max-width:40rem){article tr,.codes tr{display:block;border-bottom:1px solid var(--line);padding:.375rem 0}article td,.codes td{display:block;width:auto!important;border:0;padding:.125rem 0}}
@media (min-width:64rem){nav.side .menu{border:0}nav.side .menu-title{display:none}.docs{display:grid;grid-template-columns:16rem minmax(0,1fr);gap:2.5rem}nav.side{position:sticky;top:0;align-self:start;max-height:100vh;overflow-y:auto;padding:1rem .25rem}}
`
