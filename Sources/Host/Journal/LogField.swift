import Common

/// A structured field of a log line, which journal searches can match: `journalctl -u earshotd EARSHOT_TRANSFER=7`.
public enum LogField: Sendable, Equatable {
  /// The number of a transfer, as on D-Bus.
  case transfer(String)
  /// A short label of a peer or a hash of its key, never a key itself.
  case peer(String)
  /// The name of the protocol, in lower case.
  case protocolName(String)
  /// The protocol's dialect: `0.5`.
  case dialect(String)
  /// The stable code of an error.
  case error(String)
  /// The adapter: `hci0`.
  case adapter(String)
  /// The number of a link of the radio.
  case link(LinkID)
  /// The unique bus name of a program: `:1.42`.
  case client(String)
  /// A key of the configuration: `Radio.Adapter`.
  case setting(String)

  /// The stable code of `error`.
  public static func error(_ error: any CodedError) -> LogField { .error(error.code) }

  /// The journal's name of the field, `EARSHOT_…`.
  public var name: String {
    switch self {
    case .transfer: "EARSHOT_TRANSFER"
    case .peer: "EARSHOT_PEER"
    case .protocolName: "EARSHOT_PROTOCOL"
    case .dialect: "EARSHOT_DIALECT"
    case .error: "EARSHOT_ERROR"
    case .adapter: "EARSHOT_ADAPTER"
    case .link: "EARSHOT_LINK"
    case .client: "EARSHOT_CLIENT"
    case .setting: "EARSHOT_SETTING"
    }
  }

  /// The name for terminals: `transfer`.
  public var shortName: String {
    name.dropFirst("EARSHOT_".count).lowercased()
  }

  /// The value, made printable and limited in length.
  public var value: String {
    switch self {
    case .transfer(let text), .peer(let text), .protocolName(let text), .dialect(let text), .error(let text),
      .adapter(let text), .client(let text), .setting(let text):
      PrintableText.clean(text)
    case .link(let link): String(link.number)
    }
  }
}
