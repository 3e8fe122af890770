// A click on a column title sorts by it: numbers descending, text ascending; a second click reverses the order.
const body = document.querySelector("#tasks tbody");
const heads = [...document.querySelectorAll("#tasks thead th")];
heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
  const key = row => row.cells[column].dataset.key;
  const rows = [...body.rows];
  const numeric = head.dataset.kind === "number";
  const first = numeric ? "descending" : "ascending";
  const order = head.getAttribute("aria-sort") === first
    ? (numeric ? "ascending" : "descending") : first;
  const sign = order === "ascending" ? 1 : -1;
  const compare = (a, b) => numeric ? a - b : a.localeCompare(b, undefined, { numeric: true });
  // Rows without a value come last in either order.
  rows.sort((a, b) => (key(a) === "") - (key(b) === "") || sign * compare(key(a), key(b)));
  heads.forEach(other => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", order);
  body.append(...rows);
}));
