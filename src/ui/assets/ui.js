// Everything works without this file; with it the pages are live.
"use strict";
