import Glibc

/// What this machine tells everybody near by itself, whatever its services do.
enum Disclosure {
  /// In sentences for a person, with what to do about it.
  static func sentences(_ adapter: Adapter?, _ configuration: DaemonConfiguration) -> [String] {
    guard let adapter else { return [] }
    var sentences: [String] = []
    if !configuration.hidesAddress {
      sentences.append(
        "The adapter has one address for ever, by which everybody near knows this machine again: Privacy=device in [General] of"
          + " /etc/bluetooth/main.conf.")
    }
    if let alias = adapter.alias, let host = hostName, alias == host || alias.hasPrefix(host + " #") {
      sentences.append(
        "Whoever connects can read this machine's host name as the device's name: bluetoothctl system-alias with another one."
      )
    }
    return sentences
  }

  private static var hostName: String? {
    var bytes = [CChar](repeating: 0, count: 256)
    guard gethostname(&bytes, bytes.count - 1) == 0 else { return nil }
    let name = String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return name.isEmpty ? nil : name
  }
}
