/// Information that this machine reveals to everybody in range, regardless of its services.
enum Disclosure {
  /// Sentences for a person, with what to do.
  static func sentences(
    _ adapter: Adapter?, isOnly: Bool = true, _ configuration: DaemonConfiguration, _ host: HostNames = .installed()
  ) -> [String] {
    guard let adapter else { return [] }
    var sentences: [String] = []
    if !configuration.hidesAddress {
      sentences.append(
        "The adapter has one address for ever, by which everybody near knows this machine again: Privacy=device in [General] of"
          + " /etc/bluetooth/main.conf.")
    }
    if let alias = adapter.alias, host.contains(alias) {
      sentences.append(
        "Every peer that connects can read this machine's name as the device name. To change the device name: "
          + "\(AdapterCommands(adapter, isOnly: isOnly).rename)."
      )
    }
    return sentences
  }
}
