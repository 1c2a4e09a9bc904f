"""The look of a report's page: one accent for what is right, one warm colour for what is not, the rest is grey."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --soft: #f6f6f4; --line: #e3e2de; --ink: #1c1c1a; --dim: #66655f;
  --good: #1f6f8b; --good-rgb: 31 111 139; --bad: #b4532a; --bad-rgb: 196 92 48; --track: #ecebe7; --mark: #9a988f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #16171a; --soft: #1e2023; --line: #303338; --ink: #e8e6e1; --dim: #9b9a94;
    --good: #6fbad3; --good-rgb: 84 168 196; --bad: #e2956b; --bad-rgb: 214 124 78; --track: #2a2d31; --mark: #77766f;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: break-word;
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "PingFang SC",
    "Hiragino Sans GB", "Microsoft YaHei", "Noto Sans CJK SC", "Noto Sans SC", sans-serif;
}
main { max-width: 60rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.65rem; line-height: 1.25; font-weight: 650; letter-spacing: -.01em; margin: .1rem 0 .35rem; }
h2 { font-size: 1.05rem; font-weight: 650; margin: 2.75rem 0 .75rem; }
p { margin: .35rem 0; }
.eyebrow { color: var(--dim); font-size: .8rem; letter-spacing: .06em; text-transform: uppercase; }
.dim { color: var(--dim); }
.note { border-left: 3px solid var(--bad); padding: .15rem 0 .15rem .75rem; margin: .75rem 0; }
.head { display: flex; flex-wrap: wrap; gap: .75rem 2.5rem; margin: 1.75rem 0 0; align-items: baseline; }
.head .big { font-size: 3rem; line-height: 1; font-weight: 650; letter-spacing: -.025em; }
.head .big + span { margin-left: .6rem; }
.fact { font-variant-numeric: tabular-nums; }
.fact b { display: block; font-weight: 600; font-size: 1.1rem; }
.fact span { color: var(--dim); font-size: .85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums lining-nums; }
th, td { text-align: right; padding: .38rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 500; color: var(--dim); font-size: .85rem; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th:last-child, td:last-child { padding-right: 0; }
td:first-child { white-space: normal; min-width: 7rem; }
td.value { font-weight: 600; }
td.wide, th.wide { width: 34%; min-width: 9rem; }
.track { position: relative; height: 1rem; }
.track::before {
  content: ""; position: absolute; left: 0; right: 0; top: 50%; height: 4px; margin-top: -2px; border-radius: 2px;
  background: var(--track);
}
.track i, .track b, .track s, .track u { position: absolute; top: 50%; display: block; }
.track i { left: 0; height: 4px; margin-top: -2px; border-radius: 2px; background: rgb(var(--good-rgb) / .3); }
.track b { height: 12px; margin-top: -6px; border-radius: 3px; background: rgb(var(--good-rgb) / .4); }
.track s { width: 6px; height: 6px; margin: -3px 0 0 -3px; border-radius: 50%; background: var(--good); }
.track u { width: 2px; height: 12px; margin: -6px 0 0 -1px; background: var(--mark); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); gap: 1.5rem 2.5rem; }
.plots > * { min-width: 0; } figure { margin: 0; }
figcaption { color: var(--dim); font-size: .85rem; margin-top: .4rem; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { fill: var(--dim); font-size: 11px; font-family: inherit; font-variant-numeric: tabular-nums; }
svg .axis { stroke: var(--line); stroke-width: 1; fill: none; }
svg .ideal { stroke: var(--dim); stroke-width: 1.25; stroke-dasharray: 3 4; fill: none; }
svg .bar { fill: rgb(var(--good-rgb) / .35); }
svg .count { fill: var(--mark); opacity: .45; }
svg .dot { fill: var(--good); }
svg .point { fill: rgb(var(--good-rgb) / .45); }
svg .curve { stroke: var(--good); stroke-width: 2; fill: none; stroke-linejoin: round; }
.matrix { width: auto; border-spacing: 2px; border-collapse: separate; }
.matrix th, .matrix td { border: 0; padding: .4rem .55rem; text-align: center; }
.matrix td { border-radius: 4px; min-width: 3.2rem; }
.matrix th { max-width: 8rem; overflow: hidden; text-overflow: ellipsis; }
.matrix tr > th:first-child { text-align: right; }
.mistake { border-top: 1px solid var(--line); padding: .85rem 0; }
.mistake .text, .verdict { overflow-wrap: anywhere; }
.mistake .text { margin: 0 0 .4rem; }
.mistake .second { border-left: 2px solid var(--line); padding-left: .7rem; }
.verdict { font-size: .88rem; display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; color: var(--dim); }
.verdict .g { color: var(--good); font-weight: 600; } .verdict .p { color: var(--bad); font-weight: 600; }
mark { background: none; color: inherit; padding: .08em 0; }
mark.g { border-bottom: 2px solid var(--good); }
mark.p { background: rgb(var(--bad-rgb) / .22); border-radius: 2px; }
mark small { font-size: .66em; font-weight: 650; letter-spacing: .02em; margin-left: .25em; vertical-align: .12em; }
mark small.g { color: var(--good); } mark small.p { color: var(--bad); }
.legend { font-size: .85rem; color: var(--dim); margin: .5rem 0; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem; margin: 0;
  overflow-x: auto; white-space: pre-wrap; font: 13px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
footer { margin-top: 3rem; color: var(--dim); font-size: .85rem; }
@media (max-width: 40rem) {
  main { padding: 1.5rem 1rem 3rem; }
  h1 { font-size: 1.35rem; }
  .head { gap: .9rem 2rem; }
  .head > div:first-child { flex-basis: 100%; }
  .head .big { font-size: 2.5rem; }
  .figures .wide, .classes .slim { display: none; }
  table { font-size: .85rem; }
  th, td { padding: .38rem .3rem; }
  td:first-child { min-width: 5rem; }
  .classes .wide { min-width: 3.5rem; width: auto; }
  .matrix td { min-width: 2.6rem; }
  .matrix th { max-width: 5rem; }
}
@media print { main { max-width: none; } .mistake { break-inside: avoid; } }
"""
