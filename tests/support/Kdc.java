import java.io.File;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;

/** A Kerberos KDC until standard input ends; see kerberos_kdc.py. Arguments: directory, realm, port, (keytab, principal)... */
public class Kdc {
    public static void main(String[] args) throws Exception {
        SimpleKdcServer kdc = new SimpleKdcServer();
        kdc.setWorkDir(new File(args[0]));
        kdc.setKdcHost("127.0.0.1");
        kdc.setKdcRealm(args[1]);
        kdc.setKdcTcpPort(Integer.parseInt(args[2]));
        kdc.setAllowUdp(false);
        kdc.init();
        kdc.start();
        for (int i = 3; i < args.length; i += 2) {
            kdc.createAndExportPrincipals(new File(args[i]), args[i + 1]);
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {
        }
        System.exit(0);
    }
}
