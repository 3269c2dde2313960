// Bundles the tests and runs them. Needs Debian's chromium; installs nothing.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, "../node_modules/.cache/viewer-test");
const browser = process.env.PAGEYARD_CHROMIUM ?? "/usr/bin/chromium";
if (!existsSync(browser)) {
  console.error(`viewer tests: there is no browser at ${browser}: install Debian's chromium (apt-get install chromium), or name another in PAGEYARD_CHROMIUM.`);
  process.exit(1);
}
mkdirSync(out, { recursive: true });
const tests = process.argv.slice(2);
const entries = tests.length > 0 ? tests.map((name) => join(here, name)) : ["unit.test.ts", "page.test.ts", "bad.test.ts", "maps.test.ts", "compared.test.ts"].map((name) => join(here, name));
await build({ entryPoints: entries, outdir: out, bundle: true, platform: "node", format: "esm", packages: "external", outExtension: { ".js": ".mjs" }, logLevel: "warning" });
process.env.PAGEYARD_CHROMIUM = browser;
process.env.PAGEYARD_VIEWER = join(here, "..");
const files = entries.map((entry) => join(out, entry.split("/").pop().replace(/\.ts$/, ".mjs")));
const isTest = files.every((file) => file.endsWith(".test.mjs"));
process.exit(spawnSync(process.execPath, isTest ? ["--test", "--test-concurrency=2", "--test-reporter=spec", ...files] : files, { stdio: "inherit" }).status ?? 1);
