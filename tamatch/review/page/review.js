"use strict";
// The page of `tamatch review`: a label is the number of a class, or SKIPPED.

const SKIPPED = -1;

async function start() {
  history.replaceState(null, "", "/"); // the key in the address has done its work
  const answer = await fetch("/state");
  if (!answer.ok) throw new Error(await answer.text());
  data = await answer.json();
  for (const [image, label] of Object.entries(data.labels)) labels.set(Number(image), label);
  undoable = data.undoable;
  makeClasses();
  new ResizeObserver(measure).observe($("grid"));
  measure();
  filter();
  $("grid").focus({ preventScroll: true });
}

// ---- what is shown ------------------------------------------------------------------------

function filter() {
  const state = $("state").value;
  const wanted = $("class").value === "" ? null : Number($("class").value);
  const [low, high] = $("confidence").value.split(" ").map(Number);
  const before = view[cursor];
  view = [];
  for (let i = 0; i < data.files.length; i++) {
    const label = labels.get(i);
    const is = label === undefined ? "todo" : label === SKIPPED ? "skipped" : "labelled";
    if (state !== "all" && state !== is) continue;
    if (wanted !== null && data.guesses[i][0] !== wanted) continue;
    if (data.shares[i][0] < low || data.shares[i][0] >= high) continue;
    view.push(i);
  }
  cursor = Math.max(0, view.indexOf(before));
  const all = view.length === data.files.length;
  $("shown").textContent = all ? "" : `${view.length.toLocaleString("en")} shown`;
  redraw();
}

function describe(image) {
  const label = labels.get(image);
  const guess = data.classes[data.guesses[image][0]];
  const sure = percent(data.shares[image][0]);
  const state = label === undefined ? "todo" : label === SKIPPED ? "skipped" : "labelled";
  const words = { todo: guess, skipped: "skipped", labelled: data.classes[label] };
  const said = { todo: "no label", skipped: "skipped", labelled: `labelled ${data.classes[label]}` };
  const about = `${data.files[image]}: guess ${guess}, ${sure}; ${said[state]}`;
  return { state, word: words[state], sure: state === "todo" ? sure : "", about };
}

function showPanel() {
  const image = view[cursor];
  const none = image === undefined;
  $("panel").classList.toggle("none", none);
  for (const id of ["confirm", "skip"]) $(id).disabled = none || broken;
  $("undo").disabled = undoable === 0 || broken;
  for (const button of $("classes").children) button.disabled = none || broken;
  if (none) return showNoPhoto();
  const label = labels.get(image);
  const [guess] = data.guesses[image];
  showPhoto(image);
  const rows = data.guesses[image].map((c, k) => guessRow(data.classes[c], data.shares[image][k]));
  $("guesses").replaceChildren(...rows);
  $("confirm-text").textContent = `It is ${data.classes[guess]}`;
  const said = label === SKIPPED ? "Skipped" : `Labelled ${data.classes[label]}`;
  $("decided").textContent = label === undefined ? "" : said;
  [...$("classes").children].forEach((button, c) => {
    button.classList.toggle("guess", c === guess);
    button.setAttribute("aria-pressed", String(c === label));
  });
}

function showCounts() {
  let done = 0;
  let passed = 0;
  const perClass = data.classes.map(() => 0);
  for (const label of labels.values()) {
    if (label === SKIPPED) passed++;
    else {
      done++;
      perClass[label]++;
    }
  }
  const left = data.files.length - done - passed;
  counts([["labelled", done], ...(passed ? [["skipped", passed]] : []), ["to do", left]]);
  showSaved(done + passed);
  perClass.forEach((n, c) => {
    const given = data.given[c];
    const count = $("classes").children[c].querySelector(".count");
    count.textContent = n ? `${given} + ${n}` : String(given);
  });
}

function makeClasses() {
  data.classes.forEach((name, c) => {
    const button = element("button", "class");
    button.type = "button";
    const key = c < 10 ? element("kbd", "", String((c + 1) % 10)) : element("span", "nokey");
    const count = element("span", "count");
    count.title = "labelled images of this class: before, and added here";
    button.append(key, element("span", "name", name), count);
    button.addEventListener("click", (event) => {
      decide(c);
      if (event.detail) $("grid").focus({ preventScroll: true });
    });
    $("classes").append(button);
    const option = element("option", "", name);
    option.value = String(c);
    $("class").append(option);
  });
  $("find-row").hidden = data.classes.length <= 10;
}

// ---- what the person does -----------------------------------------------------------------

function decide(label) {
  const image = view[cursor];
  if (image === undefined || broken) return;
  const before = labels.get(image);
  labels.set(image, label);
  undoable++;
  const word = label === SKIPPED ? "skipped" : `labelled ${data.classes[label]}`;
  $("said").textContent = `${data.files[image]} ${word}.`;
  send("/label", { image, label }, () => restore(image, before), showCounts);
  advance();
}

function advance() {
  const open = view.map((image, at) => (labels.has(image) ? -1 : at)).filter((at) => at >= 0);
  const next = open.find((at) => at > cursor) ?? open[0];
  if (next === undefined && $("state").value === "todo") return filter(); // all of it is done
  cursor = next ?? Math.min(cursor + 1, view.length - 1);
  show();
}

function undo() {
  if (!undoable || broken) return;
  send("/undo", {}, () => {}, undone);
}

function undone(answer) {
  undoable = answer.undoable;
  if (answer.image === null) return;
  if (answer.image < 0) $("said").textContent = "A label from an earlier session was undone.";
  else {
    restore(answer.image, answer.label ?? undefined);
    $("said").textContent = `${data.files[answer.image]}: undone.`;
    const at = view.indexOf(answer.image);
    if (at >= 0) cursor = at;
    else {
      $("state").value = "todo";
      filter();
      cursor = Math.max(0, view.indexOf(answer.image));
    }
  }
  show();
}

function restore(image, label) {
  if (label === undefined) labels.delete(image);
  else labels.set(image, label);
}

// ---- keys -----------------------------------------------------------------------------------

function onKey(event) {
  if (!data || event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
  const on = event.target;
  if (event.key === "Escape") return void $("grid").focus({ preventScroll: true });
  if (on.matches("input, select, textarea")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const pressed = on.matches("button, summary, a") && (key === "Enter" || key === " ");
  if (pressed) return; // the button itself answers
  const digit = /^[0-9]$/.test(key) ? (Number(key) + 9) % 10 : -1;
  if (key in MOVES) choose(cursor + MOVES[key]());
  else if (event.repeat) return; // a key held down labels one image
  else if (digit >= 0 && digit < data.classes.length) decide(digit);
  else if (key === "Enter") confirmGuess();
  else if (key === "s") decide(SKIPPED);
  else if (key === "u") undo();
  else if (key === "?") $("help").showModal();
  else if (key === "/" && !$("find-row").hidden) $("find").focus();
  else return;
  event.preventDefault();
}

function confirmGuess() {
  if (view[cursor] !== undefined) decide(data.guesses[view[cursor]][0]);
}

function matching() {
  const wanted = $("find").value.trim().toLowerCase();
  const names = data.classes.map((name) => name.toLowerCase());
  const starts = (c) => (names[c].startsWith(wanted) ? 0 : 1);
  const found = names.map((_, c) => c).filter((c) => names[c].includes(wanted));
  return found.sort((a, b) => starts(a) - starts(b) || a - b);
}

function find(event) {
  const found = new Set(matching());
  [...$("classes").children].forEach((button, c) => (button.hidden = !found.has(c)));
  $("said").textContent = `${found.size} classes`;
  if (event.key !== "Enter") return;
  event.preventDefault();
  const [first] = matching();
  if (first !== undefined && $("find").value.trim()) decide(first);
  leaveFind();
}

function leaveFind() {
  $("find").value = "";
  for (const button of $("classes").children) button.hidden = false;
  $("grid").focus({ preventScroll: true });
}

document.addEventListener("keydown", onKey);
for (const id of ["state", "class", "confidence"]) $(id).addEventListener("change", filter);
$("find").addEventListener("input", find);
$("find").addEventListener("keydown", (event) => {
  if (event.key === "Enter") find(event);
  if (event.key === "Escape") leaveFind();
});
click("confirm", confirmGuess);
click("skip", () => decide(SKIPPED));
click("undo", undo);
start().catch(fail);
