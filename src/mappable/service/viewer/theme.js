"use strict";
// Before anything is drawn, so that the page does not flash in the other colours.
{
  const chosen = localStorage.getItem("theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
}
