/* SPDX-FileCopyrightText: 2026 The gpumap authors */
/* SPDX-License-Identifier: MIT */

#include "agent/topo/topo.h"

/* Where a server serves the page, it asks every few seconds for topo.json, and
 * moves bars and texts.  Other rows or other maps need another picture. */
static const char script[] =
	"const B=Number(document.currentScript.dataset.bar);\n"
	"const S=b=>{let u=['B','KiB','MiB','GiB','TiB'],i=0;"
	"while(b>=1024&&i<4){b/=1024;i++}"
	"return(i&&b<100?b.toFixed(1):Math.round(b))+' '+u[i]};\n"
	"const E=id=>document.getElementById(id);\n"
	"const K=t=>JSON.stringify(t.rows.map(r=>[r.row,r.name,r.state,r.maps,"
	"r.ranks]));\n"
	"let seen=null;\n"
	"function show(t){\n"
	" if(seen!==null&&K(t)!==seen)E('note').textContent="
	"'The layout has changed: make the page anew.';\n"
	" if(seen===null)seen=K(t);\n"
	" for(const r of t.rows){\n"
	"  const u=E(`r${r.row}u`),p=E(`r${r.row}p`);\n"
	"  if(!u)continue;\n"
	"  const w=x=>x/r.total_bytes*B;\n"
	"  u.setAttribute('width',w(r.used_bytes));\n"
	"  p.setAttribute('x',+u.getAttribute('x')+w(r.used_bytes));\n"
	"  p.setAttribute('width',w(r.promised_bytes));\n"
	"  E(`r${r.row}t`).textContent=S(r.used_bytes)+' used, '"
	"+S(r.promised_bytes)+' promised';\n"
	"  E(`r${r.row}f`).textContent=S(r.free_bytes)+' free of '"
	"+S(r.total_bytes);\n"
	" }\n"
	" E('when').textContent='as of '+new Date().toLocaleTimeString();\n"
	"}\n"
	"async function ask(){\n"
	" try{const a=await fetch('topo.json',{cache:'no-store'});"
	"if(a.ok)show(await a.json())}catch(e){}\n"
	"}\n"
	"if(location.protocol.startsWith('http')){ask();setInterval(ask,5000)}"
	"\n";

void gm_topo_html(FILE *to, const struct gm_topo *t)
{
	fputs("<!doctype html>\n<html lang=\"en\">\n<head>\n"
	      "<meta charset=\"utf-8\">\n"
	      "<meta name=\"color-scheme\" content=\"light dark\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width\">\n"
	      "<link rel=\"icon\" href=\"data:,\">\n"
	      "<title>gpumap</title>\n"
	      "<style>body{font:12px monospace;margin:12px}"
	      "svg{max-width:100%;height:auto}</style>\n"
	      "</head>\n<body>\n",
	      to);
	gm_topo_svg(to, t);
	fprintf(to,
		"<p id=\"when\"></p>\n<p id=\"note\" role=\"status\"></p>\n"
		"<script data-bar=\"%d\">\n%s</script>\n</body>\n</html>\n",
		GM_TOPO_BAR, script);
}
