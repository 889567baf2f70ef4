package relatch.interop;

import java.util.Map;
import java.util.stream.Collectors;

/** Writes what the answers are made of: maps, texts, numbers, booleans and null. It reads nothing. */
final class Json {
    private Json() {
    }

    static String of(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream()
                .map(entry -> of(entry.getKey().toString()) + ":" + of(entry.getValue()))
                .collect(Collectors.joining(",", "{", "}"));
        }
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : value.toString().toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c < ' ') {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }
}
