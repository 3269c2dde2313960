// Builds dist/map.html: one page with styles, script and worker inside, the same bytes each time.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const MARKER = "<!--pageyard:story-->";

const common = { bundle: true, write: false, minify: true, format: "iife", target: "es2022", charset: "ascii", legalComments: "none", logLevel: "warning", absWorkingDir: here };

async function bundled(options) {
  const result = await build({ ...common, ...options });
  return result.outputFiles[0].text.trim();
}

export async function page() {
  const worker = await bundled({ entryPoints: ["src/worker.ts"] });
  const inline = {
    name: "worker-source",
    setup(at) {
      at.onResolve({ filter: /^worker-source$/ }, () => ({ path: "worker-source", namespace: "text" }));
      at.onLoad({ filter: /.*/, namespace: "text" }, () => ({ contents: worker, loader: "text" }));
    },
  };
  const uplot = join(here, "node_modules/uplot");
  const notice = readFileSync(join(uplot, "LICENSE"), "utf8").trim().replaceAll("*/", "* /");
  const script = `/*! Contains uPlot.\n${notice}\n*/\n${await bundled({ entryPoints: ["src/main.ts"], plugins: [inline] })}\n`;
  const style = `${await bundled({ entryPoints: ["src/style.css"] })}\n`;
  const sum = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const policy = `default-src 'none'; script-src ${sum(script)}; style-src ${sum(style)}; worker-src blob:; base-uri 'none'; form-action 'none'`;
  const parts = { policy, style, script };
  const html = readFileSync(join(here, "src/index.html"), "utf8").replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name]);
  const lines = html.split("\n").filter((line) => line.includes(MARKER));
  if (lines.length !== 1 || lines[0] !== MARKER) throw new Error("the page must have exactly one line that is the story's marker");
  if (/<\/script/i.test(script) || /<\/style/i.test(style)) throw new Error("the script or the style ends its own element");
  return html;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const out = process.argv[2] ?? join(here, "dist/map.html");
  const html = await page();
  mkdirSync(dirname(out), { recursive: true });
  writeFileSync(out, html);
  console.log(`${out}: ${Buffer.byteLength(html)} bytes`);
}
