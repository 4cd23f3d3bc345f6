/* SPDX-License-Identifier: Apache-2.0 */
/* page.c: the head of each HTML page of bp, with the CSS: light and dark, for phones and wide
 * screens. */
#include "escape.h"
#include "report.h"

/* clang-format off */
static const char page_style[] =
    ":root{color-scheme:light dark;--back:#fff;--text:#1a1d21;--soft:#5c6570;--line:#dde1e6;"
    "--card:#f6f7f9;--good:#1a7f46;--good-back:#dff3e6;--bad:#b3261e;--bad-back:#fbe3e1;"
    "--dull-back:#eceff2;--bar:#3b6fb5}"
    "@media(prefers-color-scheme:dark){:root{--back:#14171a;--text:#e6e8eb;--soft:#9aa4af;"
    "--line:#2d333a;--card:#1c2025;--good:#6cd596;--good-back:#16351f;--bad:#ff9d94;"
    "--bad-back:#43191a;--dull-back:#23282e;--bar:#7aa7e6}}"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:72rem;padding:1.5rem 1rem 4rem;background:var(--back);"
    "color:var(--text);font:15px/1.5 system-ui,sans-serif}"
    "h1{font-size:1.5rem;margin:0}"
    "h2{font-size:1.1rem;margin:2.2rem 0 .6rem}"
    "p{margin:.3rem 0;overflow-wrap:anywhere}"
    ".soft{color:var(--soft)}"
    "code,.id{font-family:ui-monospace,monospace;font-size:.86em;overflow-wrap:anywhere}"
    ".verdict{display:inline-block;padding:.2rem .7rem;border-radius:.4rem;font-weight:600;"
    "margin:.6rem .5rem .3rem 0}"
    ".good{color:var(--good);background:var(--good-back)}"
    ".bad{color:var(--bad);background:var(--bad-back)}"
    ".dull{color:var(--soft);background:var(--dull-back)}"
    ".scroll{margin:.6rem 0;overflow-x:auto;border:1px solid var(--line);border-radius:.4rem}"
    "table{border-collapse:collapse;width:100%;font-size:.9rem}"
    "th,td{padding:.3rem .6rem;text-align:right;white-space:nowrap;"
    "border-bottom:1px solid var(--line)}"
    "tr:last-child td,tr:last-child th{border-bottom:0}"
    "th{font-weight:600;color:var(--soft)}"
    "th:first-child{text-align:left;position:sticky;left:0;background:var(--card)}"
    "thead th{background:var(--card)}"
    ".words{white-space:normal}"
    "td.none{color:var(--soft)}"
    ".failure{border:1px solid var(--line);border-left:4px solid var(--bad);"
    "border-radius:.4rem;padding:.6rem .8rem;margin:.6rem 0;overflow-wrap:anywhere}"
    "details{margin:.4rem 0}"
    "summary{cursor:pointer}"
    "ul{padding-left:1.2rem}"
    "svg{display:block;width:100%;max-width:36rem;height:auto}"
    "svg text{fill:var(--text);font:12px system-ui,sans-serif}"
    "svg .soft{fill:var(--soft)}"
    "svg .bar{fill:var(--bar)}"
    "svg .over{fill:var(--bad)}"
    "svg .edge{stroke:var(--line)}";
/* clang-format on */

void report_page_begin(const char *title, const char *of, const char *more_style, FILE *file)
{
    fprintf(file, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                  "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>");
    escape(file, title);
    escape(file, of);
    fprintf(file, "</title>\n<style>%s%s</style></head>\n<body>\n<h1>", page_style, more_style);
    escape(file, title);
    escape(file, of);
    fprintf(file, "</h1>\n");
}
