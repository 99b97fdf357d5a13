/// JSON-like value that describes a part of a packet.
public indirect enum Described: Hashable, Sendable {
  case text(String)
  case number(UInt64)
  case flag(Bool)
  case list([Described])
  case fields([Field])

  /// Name and value of a field.
  public struct Field: Hashable, Sendable {
    public let name: String
    public let value: Described

    init(_ name: String, _ value: Described) {
      self.name = name
      self.value = value
    }

    init(_ name: String, _ text: String) { self.init(name, .text(text)) }
    init(_ name: String, _ number: some BinaryInteger) { self.init(name, .number(UInt64(clamping: number))) }
    init(_ name: String, _ flag: Bool) { self.init(name, .flag(flag)) }
    init(_ name: String, _ texts: [String]) { self.init(name, .list(texts.map { .text($0) })) }

    init?(_ name: String, _ text: String?) {
      guard let text else { return nil }
      self.init(name, text)
    }
  }
}
