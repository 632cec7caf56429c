// The page: its frame, and which view stands in it.

import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./page.css";
import { Page } from "./page";

render(<Page />, document.body);
