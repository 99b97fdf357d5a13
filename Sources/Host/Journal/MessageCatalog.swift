/// The catalog of messages, which `journalctl --catalog` shows with each line. It is generated from the message IDs.
public enum MessageCatalog {
  /// The catalog as a file for `/usr/lib/systemd/catalog`: one entry for each ID, in the given order.
  public static func text(_ ids: [MessageID]) -> String {
    var written: Set<String> = []
    let entries = ids.filter { written.insert($0.hex).inserted }.map { id in
      """
      -- \(id.hex)
      Subject: \(id.subject)
      Defined-By: earshotd

      \(id.explanation)

      """
    }
    return "# The messages of earshotd, explained: journalctl --catalog.\n\n" + entries.joined(separator: "\n")
  }
}
