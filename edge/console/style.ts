// The console's additions to the style of our pages: a wider frame on wide screens, cards, a
// filter. The rules for contrast and sizes in edge/pages/style.ts apply here too.

export const consoleStyle = `
header:has(nav){display:flex;flex-wrap:wrap;align-items:center;gap:.25rem 1rem;border-bottom:1px solid var(--line);padding-bottom:.5rem;max-width:60rem}
header:has(nav)+main{max-width:60rem}
nav{display:flex;flex-wrap:wrap;width:100%;gap:.25rem;margin:0 -.75rem}
nav a{display:flex;align-items:center;min-height:2.75rem;padding:0 .75rem;border-radius:.625rem;color:var(--soft);text-decoration:none;font-weight:600;font-size:.9375rem}
nav a[aria-current]{color:var(--ink);background:var(--wash)}
nav a:hover{color:var(--ink)}
.who{display:flex;margin-left:auto;align-items:center;gap:.75rem;font-size:.875rem;color:var(--soft)}
button.plain{min-height:2.75rem;min-width:0;padding:.25rem .875rem;background:var(--paper);color:var(--ink);border-color:var(--field);font-size:.875rem}
button.main{background:var(--ink);color:var(--paper)}
.skip{position:absolute;left:-100rem}
.skip:focus{left:1rem;top:.5rem;background:var(--paper);padding:.75rem 1rem;z-index:1}
input:not([type]),input[type=search],input[type=password],select{display:block;width:100%;min-height:2.75rem;margin-top:.25rem;padding:.375rem .625rem;font:inherit;font-size:1rem;font-weight:400;color:var(--ink);background:var(--paper);border:1px solid var(--field);border-radius:.5rem}
.narrow{max-width:26rem;margin:2rem auto 0}
.narrow button{width:100%;margin-top:1rem}
.filter{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.5rem .75rem;align-items:end;padding:0 0 .75rem}
.filter label{font-size:.8125rem;color:var(--soft)}
.filter button{width:100%}
details.fold{border:0;margin:.25rem 0 .5rem}
ul.cards{list-style:none;margin:.5rem 0;padding:0;display:grid;gap:.75rem}
.card{position:relative;border:1px solid var(--line);border-left:.25rem solid var(--field);border-radius:.625rem;padding:.75rem .875rem}
.card.critical,.card.high{border-left-color:var(--no)}
.card.medium{border-left-color:var(--warn)}
.card.low{border-left-color:var(--go)}
.card h2{margin:0 0 .25rem}
.card h2 a{display:flex;align-items:center;min-height:2.75rem;margin:-.5rem 0 -.375rem;color:inherit;text-decoration-color:var(--field);text-underline-offset:.2em}
.head{display:flex;gap:.5rem;align-items:flex-start}
.head h2{flex:1}
.choose{display:flex;align-items:center;justify-content:center;min-width:2.75rem;min-height:2.75rem;margin:-.5rem -.5rem -.375rem 0;cursor:pointer}
input[type=checkbox]{width:1.375rem;height:1.375rem;accent-color:var(--no)}
.tag.many{color:var(--ink);background:var(--wash);border:1px solid var(--field);white-space:normal}
.outcome ul{margin:.5rem 0 0;padding-left:1.125rem}
.outcome pre{color:var(--ink)}
.card pre{margin:.375rem 0}
.card .tags{margin:.25rem 0 0}
.written{max-height:30rem;overflow:auto;tab-size:8;margin:.25rem 0 .375rem;background:var(--wash);border:1px solid var(--line);border-radius:.5rem}
.written pre{margin:0;border:0}
#cancel{margin-top:1rem}
ul.versions{list-style:none;margin:.5rem 0 0;padding:0}
ul.versions li{display:flex;flex-wrap:wrap;align-items:center;gap:.125rem .75rem}
ul.versions a{display:flex;align-items:center;min-height:2.75rem;min-width:3.5rem}
ul.sentences{margin:.25rem 0;padding-left:1.125rem}
ul.sentences li{margin:.25rem 0;overflow-wrap:anywhere}
ul.sentences .tag{margin-left:.5rem}
.doing{margin:1rem 0}
.alert p{margin:.25rem 0}
.empty{padding:2.5rem 1rem;text-align:center;color:var(--soft);background:var(--wash);border-radius:.75rem}
.back{display:inline-flex;align-items:center;min-height:2.75rem;font-size:.9375rem}
`
