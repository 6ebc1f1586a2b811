// The theme that a person chose, before anything is drawn; without a choice the system's.
(() => {
  try {
    const theme = localStorage.getItem("hooklane-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // A browser that keeps nothing follows the system.
  }
})();
