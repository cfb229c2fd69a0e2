# SPDX-License-Identifier: Apache-2.0
# What runs R: one session, in whose global environment every execution goes on where the last one ended.
# fields.py tells how it is spoken to. Each expression is evaluated by itself; the value of the last is the
# result where R would show it, those before it are printed. Pages of plots are results of their own.
local({
  asked <- file("/dev/fd/3", "r")
  heard <- file("/dev/fd/4", "w")
  encode <- function(text) {
    text <- enc2utf8(paste(text, collapse = "\n"))
    if (nzchar(text)) gsub("\n", "", jsonlite::base64_enc(charToRaw(text))) else "-"
  }
  decode <- function(field) {
    text <- if (field == "-") "" else rawToChar(jsonlite::base64_dec(field))
    Encoding(text) <- "UTF-8"
    text
  }
  say <- function(word, ...) {
    cat(word, ..., file = heard)
    cat("\n", file = heard)
    flush(heard)
  }
  set_env <- function(fields) {
    for (i in seq_len(length(fields) %/% 2))
      do.call(Sys.setenv, setNames(list(decode(fields[2 * i])), decode(fields[2 * i - 1])))
  }

  # Plots: a device is opened by the first of them, and closed at the end of the execution.
  pages <- tempfile("plots")
  options(device = function(...) {
    dir.create(pages, showWarnings = FALSE)
    png(file.path(pages, "%05d.png"), width = 800, height = 600, res = 100)
  }, width = 120)
  show_plots <- function() {
    if (!dir.exists(pages)) return(invisible())
    graphics.off()
    for (page in sort(list.files(pages, full.names = TRUE)))
      say("result", "png", encode(gsub("\n", "", jsonlite::base64_enc(readBin(page, "raw", file.size(page))))))
    unlink(pages, recursive = TRUE)
  }

  table_of <- function(frame) {
    escape <- function(x) gsub("<", "&lt;", gsub(">", "&gt;", gsub("&", "&amp;", x, fixed = TRUE), fixed = TRUE), fixed = TRUE)
    row <- function(cells, tag) paste0("<tr>", paste0("<", tag, ">", escape(cells), "</", tag, ">", collapse = ""), "</tr>")
    shown <- head(frame, 1000)
    cells <- vapply(shown, function(column) trimws(format(column)), character(nrow(shown)))
    dim(cells) <- dim(shown)
    paste0("<table>", row(names(frame), "th"), paste0(apply(cells, 1, row, "td"), collapse = ""), "</table>")
  }
  show_value <- function(value) {
    fields <- c("text", encode(capture.output(print(value))))
    if (is.data.frame(value) && nrow(value) && ncol(value)) fields <- c(fields, "html", encode(table_of(value)))
    say("result", fields)
  }

  fail <- function(name, value, trace) say("error", "name", encode(name), "value", encode(value), "traceback", encode(trace))
  calls <- NULL # of the error that was raised last, where it was raised
  own <- "^(eval\\(expressions\\[\\[i|\\.handleSimpleError|h\\(simpleError)"
  execute <- function(code) {
    expressions <- parse(text = code, keep.source = FALSE)
    for (i in seq_along(expressions)) {
      found <- withVisible(withCallingHandlers(eval(expressions[[i]], globalenv()), error = function(e) {
        all <- vapply(sys.calls(), function(call) paste(deparse(call, nlines = 1L), collapse = ""), "")
        theirs <- all[seq_along(all) > max(grep("^eval\\(expressions", all))]
        calls <<- grep(own, theirs, value = TRUE, invert = TRUE)
      }))
      if (!found$visible) next
      if (i < length(expressions) || inherits(found$value, c("ggplot", "trellis"))) print(found$value)
      else show_value(found$value)
    }
  }
  run <- function(code) {
    calls <<- NULL
    tryCatch(execute(code),
      error = function(e) fail(class(e)[1], conditionMessage(e), c(conditionMessage(e), rev(calls))),
      interrupt = function(e) fail("KeyboardInterrupt", "", ""))
    tryCatch(show_plots(), error = function(e) fail(class(e)[1], conditionMessage(e), ""))
  }

  # What a caller sets for one execution is as before after it.
  run_with <- function(code, fields) {
    names <- vapply(fields[seq_along(fields) %% 2 == 1], decode, "")
    before <- Sys.getenv(names, unset = NA)
    set_env(fields)
    run(code)
    for (i in seq_along(names))
      if (is.na(before[i])) Sys.unsetenv(names[i]) else do.call(Sys.setenv, setNames(list(before[[i]]), names[i]))
  }

  options(warn = 1)
  readline <- function(prompt = "") stop("input is not available here")
  assign("readline", readline, envir = globalenv())
  assign("q", function(...) stop("the session ends with its context: restart or remove that"), envir = globalenv())
  assign("quit", get("q", envir = globalenv()), envir = globalenv())
  say("ready")
  repeat {
    line <- tryCatch(readLines(asked, 1), interrupt = function(e) NULL)
    if (is.null(line)) next
    if (!length(line)) quit("no")
    fields <- strsplit(line, " ", fixed = TRUE)[[1]]
    if (fields[1] == "env") set_env(fields[-1])
    else {
      run_with(decode(fields[2]), fields[-(1:2)])
      flush(stdout())
      say("over")
    }
  }
})
