"use strict";
// The controls. Without this script the page shows everything, and the controls stay hidden.
(() => {
  const root = document.documentElement;
  const controls = document.querySelector(".controls");
  if (!controls) return;
  controls.hidden = false;

  const theme = controls.querySelector("#theme");
  const show = (name) => {
    if (name === "system") delete root.dataset.theme;
    else root.dataset.theme = name;
  };
  // A page that is opened from a file may have no storage. The choice then lasts as long as the page.
  const stored = () => { try { return localStorage.getItem("gemelo-theme"); } catch { return null; } };
  const store = (name) => { try { localStorage.setItem("gemelo-theme", name); } catch { /* no storage */ } };
  const known = [...theme.options].map((option) => option.value);
  theme.value = known.includes(stored()) ? stored() : "system";
  show(theme.value);
  theme.addEventListener("change", () => { show(theme.value); store(theme.value); });

  const scale = controls.querySelector("#scale");
  scale?.addEventListener("change", () => root.classList.toggle("even", !scale.checked));

  const tables = controls.querySelector("#tables");
  const details = document.querySelectorAll(".more details");
  tables?.addEventListener("change", () => details.forEach((one) => { one.open = tables.checked; }));

  for (const box of controls.querySelectorAll("[data-hides]")) {
    const update = () => root.classList.toggle(`hide-${box.dataset.hides}`, !box.checked);
    box.addEventListener("change", update);
    update();
  }
})();
