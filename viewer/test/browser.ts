// A browser and pages for the tests, with every error that a page reports.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";

export const VIEWER = process.env.PAGEYARD_VIEWER!;
export const MARKER = "<!--pageyard:story-->";

export async function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.PAGEYARD_CHROMIUM!,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"],
  });
}

/** Puts a story into the page that is checked in. */
export function withStory(text: string): string {
  const parts = readFileSync(join(VIEWER, "dist/map.html"), "utf8").split(MARKER);
  if (parts.length !== 2) throw new Error("dist/map.html does not have exactly one marker");
  return parts.join(text);
}

const folder = mkdtempSync(join(tmpdir(), "pageyard-viewer-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
let written = 0;

/** Writes a page and returns its address. */
export function write(html: string): string {
  const file = join(folder, `map-${written++}.html`);
  writeFileSync(file, html);
  return pathToFileURL(file).href;
}

export interface Opened {
  page: Page;
  /** Console errors, exceptions and refused loads. */
  errors: string[];
  close: () => Promise<void>;
}

export async function openPage(browser: Browser, url: string, options: BrowserContextOptions = {}, script?: string): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  if (script) await context.addInitScript(script);
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") errors.push(message.text());
  });
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("requestfailed", (request) => errors.push(`request failed: ${request.url().slice(0, 100)}`));
  page.on("dialog", (dialog) => {
    errors.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(url);
  return { page, errors, close: () => context.close() };
}

/** Opens a story and waits until the page says that it is ready. */
export async function openReady(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<Opened> {
  const opened = await openPage(browser, url, options);
  await opened.page.evaluate(() => window.pageyard.ready);
  return opened;
}
