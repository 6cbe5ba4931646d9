// node axe_check.js PAGE CHROMIUM: violations that axe-core finds in a page, light and dark, as JSON.
const fs = require("fs");
const path = require("path");
const { createRequire } = require("module");
const local = createRequire(path.join(process.cwd(), "package.json"));
const { chromium } = local("playwright-core");

(async () => {
  const [file, executablePath] = process.argv.slice(2);
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  const axe = fs.readFileSync(local.resolve("axe-core/axe.min.js"), "utf8");
  const found = [];
  for (const colorScheme of ["light", "dark"]) {
    const page = await browser.newPage({ colorScheme });
    await page.goto("file://" + path.resolve(file));
    await page.waitForSelector("html[data-ready]");
    const session = await page.context().newCDPSession(page);
    await session.send("Runtime.evaluate", { expression: axe });
    const expression = "axe.run().then((r) => JSON.stringify(r.violations.map((v) => " +
      "({ id: v.id, impact: v.impact, example: v.nodes[0].html }))))";
    const check = async () => {
      const answer = await session.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
      found.push(...JSON.parse(answer.result.value));
    };
    await check();
    if (await page.locator("#g-rows a").count()) {
      await page.locator("#g-rows a").first().click();
      await page.waitForSelector("#g-body table");
      await check();
    }
    await page.close();
  }
  await browser.close();
  console.log(JSON.stringify(found));
})().catch((error) => { console.error(error); process.exit(1); });
