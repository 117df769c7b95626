"use strict";
(() => {
  const box = document.querySelector("input");
  const rows = [...document.querySelectorAll("tbody tr[data-name]")];
  const none = document.querySelector(".none");
  const search = () => {
    const wanted = box.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      row.hidden = !row.dataset.name.includes(wanted);
      shown += row.hidden ? 0 : 1;
    }
    none.hidden = shown > 0 || !rows.length;
  };
  for (const row of rows) row.dataset.name = row.dataset.name.toLowerCase();
  box.addEventListener("input", search);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== box) {
      event.preventDefault();
      box.focus();
    }
    if (event.key === "Escape") {
      box.value = "";
      search();
    }
  });
  box.hidden = rows.length < 2;
  search();
})();
