// Two ways to use the page: with a pointer, and with the keyboard alone.

import { expect } from "./browser.js";

const TABS_MAX = 400;

/** Presses, writes and chooses with a pointer. */
export class Pointer {
  constructor(page) { this.page = page; }

  async press(target) { await target.click(); }

  async write(target, text) {
    await target.click();
    await target.fill(text);
  }

  async choose(target, value) { await target.selectOption(value); }

  async check(target) { await target.check(); }

  /** Opens a screen by the navigation. */
  async visit(name) { await this.press(this.page.getByRole("navigation").getByRole("link", { name: new RegExp(`^${name}`) })); }
}

/** The same without a pointer: Tab reaches a target, Enter and Space press it. */
export class Keyboard {
  constructor(page) { this.page = page; }

  async reach(target) {
    await target.waitFor();
    for (let i = 0; i < TABS_MAX; i++) {
      if (await target.evaluate((el) => el === document.activeElement)) return;
      await this.page.keyboard.press("Tab");
    }
    expect(false, `${TABS_MAX} times Tab do not reach ${target}`);
  }

  async press(target) {
    // A button that still waits is not in the order of the Tab key.
    await this.page.waitForFunction((el) => !el.disabled, await target.elementHandle());
    await this.reach(target);
    await this.page.keyboard.press("Enter");
  }

  async write(target, text) {
    await this.reach(target);
    await this.page.keyboard.press("Control+A");
    await this.page.keyboard.type(text);
  }

  async choose(target, value) {
    await this.reach(target);
    await this.page.keyboard.type(value);
    expect(await target.inputValue() === value, `the list has ${value}`);
  }

  async check(target) {
    await this.reach(target);
    await this.page.keyboard.press("Space");
  }

  async visit(name) { await this.press(this.page.getByRole("navigation").getByRole("link", { name: new RegExp(`^${name}`) })); }
}
