// The theme: as the system has it, or as chosen. Loaded before the first paint, so that no theme flashes up.
"use strict";
(() => {
  const THEMES = ["system", "light", "dark"];
  const MARKS = { system: "◐", light: "☀", dark: "☾" };

  function stored() {
    try {
      const theme = localStorage.getItem("theme");
      return THEMES.includes(theme) ? theme : "system";
    } catch {
      return "system";
    }
  }

  function show(theme) {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    const button = document.getElementById("theme-button");
    if (!button) return;
    button.textContent = MARKS[theme];
    button.setAttribute("aria-label", `Theme: ${theme}`);
    button.title = `Theme: ${theme} (t)`;
  }

  function next() {
    const theme = THEMES[(THEMES.indexOf(stored()) + 1) % THEMES.length];
    try {
      localStorage.setItem("theme", theme);
    } catch { /* A browser without storage forgets the choice. */ }
    show(theme);
    document.dispatchEvent(new Event("themechange"));
  }

  show(stored());
  document.addEventListener("DOMContentLoaded", () => {
    show(stored());
    document.getElementById("theme-button").addEventListener("click", next);
  });
  window.nextTheme = next;
})();
