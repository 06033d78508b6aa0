"use strict";
initTheme();
