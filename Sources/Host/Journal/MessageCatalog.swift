/// The catalog of messages, which `journalctl --catalog` shows with each line, written from the ids themselves.
public enum MessageCatalog {
  /// The catalog as a file for `/usr/lib/systemd/catalog`: an entry for each id, once, in the order given.
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
