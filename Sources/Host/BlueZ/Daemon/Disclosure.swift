import Glibc

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
        "The adapter has a fixed address, by which everybody in range can recognise this machine. To change that, set"
          + " Privacy=device in [General] of /etc/bluetooth/main.conf.")
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

/// The names of this machine. bluetoothd names an adapter by the machine's pretty name, or by the host name if there
/// is none.
struct HostNames: Hashable, Sendable {
  let names: Set<String>

  /// systemd's file with the pretty name: machine-info(5).
  private static let path = "/etc/machine-info"

  /// - Parameter machineInfo: the text of the file.
  init(host: String?, machineInfo: String?) {
    names = Set([host, machineInfo.flatMap { Self.prettyName(in: $0) }].compactMap(\.self).filter { !$0.isEmpty })
  }

  static func installed() -> HostNames {
    var bytes = [CChar](repeating: 0, count: 256)
    let isKnown = gethostname(&bytes, bytes.count - 1) == 0
    let host = String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    return HostNames(host: isKnown ? host : nil, machineInfo: DaemonConfiguration.text(at: path))
  }

  /// Whether an adapter's alias is a name of the machine. Two adapters differ by a number after the name, which is
  /// ignored.
  func contains(_ alias: String) -> Bool { names.contains { alias == $0 || alias.hasPrefix($0 + " #") } }

  /// Parses the pretty host name, whose value is quoted as in a shell.
  private static func prettyName(in text: String) -> String? {
    let key = "PRETTY_HOSTNAME="
    guard let line = text.split(whereSeparator: \.isNewline).last(where: { $0.hasPrefix(key) }) else { return nil }
    var value = line.dropFirst(key.count)
    while value.last == " " || value.last == "\t" { value.removeLast() }
    guard let quote = value.first, quote == "\"" || quote == "'", value.count > 1, value.last == quote else {
      return String(value)
    }
    value = value.dropFirst().dropLast()
    guard quote == "\"" else { return String(value) }
    var (name, isEscaped) = ("", false)
    for character in value {
      if character == "\\", !isEscaped {
        isEscaped = true
      } else {
        name.append(character)
        isEscaped = false
      }
    }
    return name
  }
}
