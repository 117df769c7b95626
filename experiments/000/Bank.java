import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.FileInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Base64;
import java.util.HexFormat;
import java.util.Properties;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * The bank's page of accounts in Java: java Bank CONFIG PORT. What it says is what examples/bank says, byte for byte.
 * A fixed number of threads answer, each with a connection to the database and statements that it keeps.
 */
public final class Bank {
    private static final Pattern TOKEN = Pattern.compile("(?:^|; )token=([^;]*)");
    private static final Pattern CLAIMS = Pattern.compile("\\{\"sub\":(\\d+),\"exp\":(\\d+),\"jti\":\"([0-9a-f]+)\"\\}");
    private static final String CUSTOMER = "SELECT login, name FROM customers WHERE id = ?";
    private static final String ACCOUNTS = "SELECT id, title, cents FROM accounts WHERE customer = ? ORDER BY id";
    private static final String TRANSFERS =
            "SELECT CAST(t.made_at AS CHAR) AS made_at, t.source, t.target, t.cents, t.reason, a.id = t.source AS is_out"
            + " FROM accounts a JOIN transfers t ON a.id IN (t.source, t.target)"
            + " WHERE a.customer = ? ORDER BY t.id DESC LIMIT 20";

    private static Properties config;
    private static final ThreadLocal<Session> SESSIONS = ThreadLocal.withInitial(Session::new);

    private record Claims(long customer, String id) {}

    /** What a thread keeps: its connection, its statements, its way to sign. */
    private static final class Session {
        final PreparedStatement customer;
        final PreparedStatement accounts;
        final PreparedStatement transfers;
        final Mac mac;

        Session() {
            try {
                String url = "jdbc:mariadb://localhost/" + config.getProperty("database")
                        + "?useServerPrepStmts=true&localSocket=" + config.getProperty("socket");
                Connection database =
                        DriverManager.getConnection(url, config.getProperty("user"), config.getProperty("password"));
                customer = database.prepareStatement(CUSTOMER);
                accounts = database.prepareStatement(ACCOUNTS);
                transfers = database.prepareStatement(TRANSFERS);
                mac = Mac.getInstance("HmacSHA256");
                mac.init(new SecretKeySpec(config.getProperty("secret").getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
            } catch (SQLException | java.security.GeneralSecurityException error) {
                throw new IllegalStateException(error);
            }
        }

        byte[] signed(String what) {
            return mac.doFinal(what.getBytes(StandardCharsets.UTF_8));
        }

        /** The claims of a token that the bank has made and that has not expired, or null. */
        Claims claims(String token) {
            String[] parts = token.split("\\.", -1);
            if (parts.length != 3) {
                return null;
            }
            byte[] given = Base64.getUrlDecoder().decode(parts[2]);
            if (!MessageDigest.isEqual(given, signed(parts[0] + "." + parts[1]))) {
                return null;
            }
            String json = new String(Base64.getUrlDecoder().decode(parts[1]), StandardCharsets.UTF_8);
            Matcher found = CLAIMS.matcher(json);
            boolean isValid = found.matches() && Long.parseLong(found.group(2)) > System.currentTimeMillis() / 1000;
            return isValid ? new Claims(Long.parseLong(found.group(1)), found.group(3)) : null;
        }
    }

    public static void main(String[] arguments) throws IOException {
        config = new Properties();
        try (FileInputStream file = new FileInputStream(arguments[0])) {
            config.load(file);
        }
        InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(arguments[1]));
        HttpServer server = HttpServer.create(address, 511);
        server.createContext("/account", Bank::answer);
        server.setExecutor(Executors.newFixedThreadPool(Integer.parseInt(config.getProperty("connections"))));
        server.start();
    }

    private static void answer(HttpExchange exchange) throws IOException {
        try (exchange) {
            Session session = SESSIONS.get();
            String cookie = exchange.getRequestHeaders().getFirst("Cookie");
            Matcher token = TOKEN.matcher(cookie == null ? "" : cookie);
            Claims claims = token.find() ? session.claims(token.group(1)) : null;
            if (claims == null) {
                exchange.sendResponseHeaders(403, -1);
                return;
            }
            byte[] body = accountPage(session, claims).getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/html; charset=UTF-8");
            exchange.getResponseHeaders().set("Cache-Control", "no-store");
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
        } catch (SQLException | RuntimeException error) {
            error.printStackTrace();
            exchange.sendResponseHeaders(500, -1);
        }
    }

    private static ResultSet ask(PreparedStatement statement, long customer) throws SQLException {
        statement.setLong(1, customer);
        return statement.executeQuery();
    }

    private static String accountPage(Session session, Claims claims) throws SQLException {
        StringBuilder owned = new StringBuilder();
        StringBuilder options = new StringBuilder();
        StringBuilder moved = new StringBuilder();
        String name;
        try (ResultSet rows = ask(session.customer, claims.customer())) {
            rows.next();
            name = rows.getString("name");
        }
        try (ResultSet rows = ask(session.accounts, claims.customer())) {
            while (rows.next()) {
                long id = rows.getLong("id");
                String title = text(rows.getString("title"));
                owned.append("<tr><td>").append(id).append("<td>").append(title).append("<td class=\"money\">");
                owned.append(money(rows.getLong("cents")));
                options.append("<option value=\"").append(id).append("\">").append(title).append("</option>");
            }
        }
        try (ResultSet rows = ask(session.transfers, claims.customer())) {
            while (rows.next()) {
                long cents = rows.getLong("cents");
                moved.append("<tr><td>").append(text(rows.getString("made_at"))).append("<td>");
                moved.append(rows.getLong("source")).append(" → ").append(rows.getLong("target"));
                moved.append("<td>").append(text(rows.getString("reason"))).append("<td class=\"money\">");
                moved.append(money(rows.getBoolean("is_out") ? -cents : cents));
            }
        }
        String form = HexFormat.of().formatHex(session.signed("form " + claims.id()));
        return page(text("Accounts of " + name), """
                <table><tr><th>Number<th>Account<th>Balance%s</table>
                <h2>Latest transfers</h2>
                <table><tr><th>When<th>Accounts<th>Reason<th>Amount%s</table>
                <h2>Transfer</h2>
                <form method="post" action="/transfer">
                    <input type="hidden" name="form" value="%s">
                    <label>From <select name="from">%s</select></label>
                    <label>To account <input name="to" inputmode="numeric" required></label>
                    <label>Amount <input name="amount" inputmode="decimal" placeholder="12.50" required></label>
                    <label>Reason <input name="reason" maxlength="100"></label>
                    <button>Transfer</button>
                </form>
                <form method="post" action="/logout"><button>Log out</button></form>""".formatted(owned, moved, form, options));
    }

    private static String page(String title, String body) {
        return """
                <!doctype html>
                <html lang="en">
                <meta charset="utf-8">
                <meta name="viewport" content="width=device-width">
                <title>%s – the bank</title>
                <style>
                    body { font: 1rem/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem }
                    table { border-collapse: collapse; width: 100%% }
                    td, th { padding: .25rem .5rem; text-align: left; border-bottom: 1px solid #ccc }
                    td.money { text-align: right; font-variant-numeric: tabular-nums }
                    label { display: block; margin: .5rem 0 }
                </style>
                <h1>%s</h1>
                %s""".formatted(title, title, body);
    }

    private static String money(long cents) {
        long whole = Math.abs(cents);
        long rest = whole % 100;
        return (cents < 0 ? "−" : "") + whole / 100 + (rest < 10 ? ".0" : ".") + rest;
    }

    private static String text(String value) {
        StringBuilder out = new StringBuilder(value.length() + 16);
        for (int index = 0; index < value.length(); index++) {
            char letter = value.charAt(index);
            switch (letter) {
                case '&' -> out.append("&amp;");
                case '<' -> out.append("&lt;");
                case '>' -> out.append("&gt;");
                case '"' -> out.append("&quot;");
                case '\'' -> out.append("&#039;");
                default -> out.append(letter);
            }
        }
        return out.toString();
    }
}
