import Bitchat
import CommandLine

extension JSONValue {
  /// Converts a description of a packet to JSON.
  init(_ described: Described) {
    switch described {
    case .text(let text): self = .string(text)
    case .number(let number): self = .unsigned(number)
    case .flag(let flag): self = .bool(flag)
    case .list(let elements): self = .array(elements.map { JSONValue($0) })
    case .fields(let fields): self = .object(fields.map { Member($0.name, JSONValue($0.value)) })
    }
  }
}
