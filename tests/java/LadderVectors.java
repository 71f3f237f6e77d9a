import java.util.Arrays;
import java.util.Scanner;

/** Compares examples/java/PublishLater.java with lines of standard input: delay in ms, exchange, routing key. */
public class LadderVectors {
    public static void main(String[] args) {
        int count = 0;
        int wrong = 0;
        for (Scanner in = new Scanner(System.in); in.hasNext(); count++) {
            long delayMs = in.nextLong();
            String[] path = PublishLater.enter(delayMs, "unpaid");
            if (!Arrays.equals(path, new String[] {in.next(), in.next()})) {
                System.out.println(delayMs + " ms: " + String.join(" ", path));
                wrong++;
            }
        }
        System.out.println(count + " vectors, " + wrong + " wrong");
    }
}
