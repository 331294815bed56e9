// Sets the theme before the first paint.
(() => {
  let theme = "system";
  try { theme = localStorage.getItem("goalmill.theme") || "system"; } catch { /* storage may be off */ }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
