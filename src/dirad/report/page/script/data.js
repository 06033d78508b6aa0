"use strict";
// The data of the page.

const data = JSON.parse(document.getElementById("data").textContent);
