import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.zip.CRC32;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.utils.internals.BufferSupplier;
import org.apache.kafka.common.utils.internals.CloseableIterator;

/**
 * Says of each line of hex, which holds record batches, what the Java client makes of it; see test_verdicts.py. A line each:
 * "ok" or "refused", how many records there were until then, and the CRC-32 of their keys and values.
 */
public class Verdicts {
    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        PrintStream out = new PrintStream(System.out, false);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            out.println(verdict(HexFormat.of().parseHex(line)));
        }
        out.flush();
    }

    private static String verdict(byte[] data) {
        CRC32 crc = new CRC32();
        int count = 0;
        try {
            for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
                batch.ensureValid();
                try (CloseableIterator<Record> records = batch.streamingIterator(BufferSupplier.NO_CACHING)) {
                    while (records.hasNext()) {
                        Record record = records.next();
                        record.ensureValid();
                        ByteBuffer key = record.key(), value = record.value();
                        add(crc, key);
                        add(crc, value);
                        count++;
                    }
                }
            }
        } catch (Throwable refusal) {
            return "refused " + count + " " + crc.getValue() + " " + refusal.toString().replace('\n', ' ');
        }
        return "ok " + count + " " + crc.getValue();
    }

    private static void add(CRC32 crc, ByteBuffer part) {
        crc.update(part == null ? 0 : 1);
        if (part != null) {
            crc.update(part);
        }
    }
}
