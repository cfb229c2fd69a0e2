// SPDX-License-Identifier: Apache-2.0
// What runs Java: JShell's engine, in this process, so that what is printed goes where ours goes. fields.py tells
// how it is spoken to. A cell is snippets, evaluated one after the other; the value of the last is the result.
import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShell;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.Completeness;
import jdk.jshell.UnresolvedReferenceException;

public final class Kernel {
    // What jshell(1) imports, too.
    private static final List<String> IMPORTS = List.of("java.io.*", "java.math.*", "java.net.*", "java.nio.file.*",
        "java.util.*", "java.util.concurrent.*", "java.util.function.*", "java.util.regex.*", "java.util.stream.*");
    private final JShell shell;
    private final PrintStream heard;
    private volatile boolean isRunning, wasInterrupted;

    private Kernel(PrintStream heard) {
        this.heard = heard;
        shell = JShell.builder().executionEngine("local").in(InputStream.nullInputStream()).build();
        for (String name : IMPORTS)
            shell.eval("import " + name + ";");
        // A process has one environment, which Java cannot change: cells read it by this.
        shell.eval("final java.util.Map<String, String> env = new java.util.HashMap<>(System.getenv());");
    }

    private static String encode(String text) {
        return text.isEmpty() ? "-" : Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String decode(String field) {
        return field.equals("-") ? "" : new String(Base64.getDecoder().decode(field), StandardCharsets.UTF_8);
    }

    private void say(String word, String... pairs) {
        StringBuilder line = new StringBuilder(word);
        for (int i = 0; i < pairs.length; i += 2)
            line.append(' ').append(pairs[i]).append(' ').append(encode(pairs[i + 1]));
        System.out.flush();
        System.err.flush();
        heard.print(line.append('\n'));
        heard.flush();
    }

    private void fail(String name, String value, String trace) {
        say("error", "name", name, "value", value, "traceback", trace);
    }

    private static String traceOf(EvalException e) {
        StringBuilder text = new StringBuilder(e.getExceptionClassName()).append(": ").append(e.getMessage());
        for (StackTraceElement at : e.getStackTrace())
            text.append("\n    at ").append(at);
        return text.toString();
    }

    private String messages(Snippet snippet) {
        String text = shell.diagnostics(snippet).filter(Diag::isError).map(d -> d.getMessage(Locale.ROOT))
            .collect(Collectors.joining("\n"));
        return text.isEmpty() ? "not understood" : text;
    }

    /** Tells what went wrong, and whether something did. */
    private boolean failed(SnippetEvent event) {
        if (event.causeSnippet() != null)
            return false; // another one, which this one has changed
        if (event.exception() instanceof EvalException e) {
            if (wasInterrupted)
                fail("KeyboardInterrupt", "", "");
            else
                fail(e.getExceptionClassName(), String.valueOf(e.getMessage()), traceOf(e));
        } else if (event.exception() instanceof UnresolvedReferenceException e) {
            fail("UnresolvedReference", messages(e.getSnippet()), "");
        } else if (event.status() == Snippet.Status.REJECTED) {
            fail("CompilationError", messages(event.snippet()), event.snippet().source());
        } else {
            return false;
        }
        return true;
    }

    private void execute(String code) {
        String value = null;
        String rest = code;
        while (!rest.isBlank()) {
            SourceCodeAnalysis.CompletionInfo next = shell.sourceCodeAnalysis().analyzeCompletion(rest);
            if (next.completeness() == Completeness.EMPTY)
                break;
            String source = next.completeness().isComplete() ? next.source() : rest;
            rest = next.completeness().isComplete() ? next.remaining() : "";
            value = null;
            for (SnippetEvent event : shell.eval(source)) {
                if (failed(event))
                    return;
                if (event.causeSnippet() == null && isShown(event.snippet()))
                    value = event.value();
            }
            if (wasInterrupted) {
                fail("KeyboardInterrupt", "", "");
                return;
            }
        }
        if (value != null && !value.isEmpty())
            say("result", "text", value);
    }

    private static boolean isShown(Snippet snippet) {
        return snippet.kind() == Snippet.Kind.EXPRESSION || snippet.kind() == Snippet.Kind.VAR && !snippet.source().contains("=");
    }

    private void setEnv(String[] fields, int from) {
        for (int i = from; i + 1 < fields.length; i += 2)
            shell.eval("env.put(" + quote(decode(fields[i])) + ", " + quote(decode(fields[i + 1])) + ");");
    }

    private static String quote(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray())
            out.append(String.format("\\u%04x", (int) c));
        // Escapes of a quote and of a line's end would be read before the string is.
        return out.append('"').toString().replace("\\u0022", "\\\"").replace("\\u005c", "\\\\").replace("\\u000a", "\\n")
            .replace("\\u000d", "\\r");
    }

    private void interrupt() {
        if (isRunning) {
            wasInterrupted = true;
            shell.stop();
        }
    }

    private void serve(BufferedReader asked) throws Exception {
        say("ready");
        for (String line; (line = asked.readLine()) != null;) {
            String[] fields = line.split(" ");
            if (fields[0].equals("env")) {
                setEnv(fields, 1);
                continue;
            }
            List<String> restore = new ArrayList<>();
            for (int i = 2; i + 1 < fields.length; i += 2)
                restore.add(decode(fields[i]));
            if (!restore.isEmpty())
                shell.eval("var __env = new java.util.HashMap<>(env);");
            setEnv(fields, 2);
            wasInterrupted = false;
            isRunning = true;
            execute(decode(fields[1]));
            isRunning = false;
            if (!restore.isEmpty())
                shell.eval("env.clear(); env.putAll(__env);");
            say("over");
        }
        System.exit(0);
    }

    public static void main(String[] args) throws Exception {
        PrintStream heard = new PrintStream(new FileOutputStream("/dev/fd/4"), false, StandardCharsets.US_ASCII);
        Kernel kernel = new Kernel(heard);
        sun.misc.Signal.handle(new sun.misc.Signal("INT"), signal -> new Thread(kernel::interrupt).start());
        kernel.serve(new BufferedReader(new InputStreamReader(new FileInputStream("/dev/fd/3"), StandardCharsets.US_ASCII)));
    }
}
