/// The syntax of a setting's values: parsing, formatting, and a description.
public struct ValueKind<Value: Sendable & Equatable>: Sendable {
  /// Completes "Takes …" and "… is not …": `a size from 1K to 64M`.
  public let form: String
  let parse: @Sendable (String) -> Result<Value, BadValue>
  let show: @Sendable (Value) -> String

  /// - Parameters:
  ///   - form: the description of a value.
  ///   - show: formats a value so that `parse` returns it.
  ///   - parse: never receives an empty text, which means the default.
  init(
    _ form: String, show: @escaping @Sendable (Value) -> String,
    parse: @escaping @Sendable (String) -> Result<Value, BadValue>
  ) {
    self.form = form
    self.parse = parse
    self.show = show
  }

  /// Adds a rule to this kind.
  /// - Parameter objection: returns the error of a value with valid syntax, or nil.
  public func refusing(_ objection: @escaping @Sendable (Value) -> String?) -> ValueKind {
    ValueKind(
      form, show: show,
      parse: { text in
        parse(text).flatMap { value in objection(value).map { .failure(.because($0)) } ?? .success(value) }
      })
  }
}

extension ValueKind {
  /// Uses the same syntax for values of another type.
  ///
  /// - Parameters:
  ///   - into: converts a parsed value.
  ///   - back: converts a value for `show`.
  public func converted<Other: Sendable & Equatable>(
    into: @escaping @Sendable (Value) -> Other, back: @escaping @Sendable (Other) -> Value
  ) -> ValueKind<Other> {
    ValueKind<Other>(form, show: { show(back($0)) }, parse: { text in parse(text).map(into) })
  }
}

/// The reason why a value is invalid.
enum BadValue: Error, Equatable {
  /// The text does not have the form of the kind.
  case form
  /// The value is not allowed for this reason, a sentence without a full stop.
  case because(String)
}

extension ValueKind where Value == Bool {
  /// `yes`, `no` and systemd's synonyms.
  public static var bool: ValueKind {
    ValueKind(
      "yes or no", show: { $0 ? "yes" : "no" },
      parse: { text in
        switch text.lowercased() {
        case "yes", "true", "on", "1", "y", "t": .success(true)
        case "no", "false", "off", "0", "n", "f": .success(false)
        default: .failure(.form)
        }
      })
  }
}

extension ValueKind where Value == Int {
  /// An integer.
  public static func number(_ range: ClosedRange<Int>) -> ValueKind {
    ValueKind(
      "a number from \(range.lowerBound) to \(range.upperBound)", show: { String($0) },
      parse: { text in
        guard let number = Int(text), range.contains(number) else { return .failure(.form) }
        return .success(number)
      })
  }

  /// A number of bytes, with `K`, `M` or `G` for powers of 1024.
  public static func size(_ range: ClosedRange<Int>) -> ValueKind {
    let form = "a size from \(Size.show(range.lowerBound)) to \(Size.show(range.upperBound))"
    return ValueKind(
      form, show: Size.show,
      parse: { text in
        guard let size = Size.parse(text), range.contains(size) else { return .failure(.form) }
        return .success(size)
      })
  }
}

extension ValueKind where Value == Duration {
  /// A time span with the units `ms`, `s`, `min` and `h`; a number without a unit counts as seconds, as in systemd.
  public static func duration(_ range: ClosedRange<Duration>) -> ValueKind {
    let form = "a time from \(TimeSpan.show(range.lowerBound)) to \(TimeSpan.show(range.upperBound))"
    return ValueKind(
      form, show: TimeSpan.show,
      parse: { text in
        guard let duration = TimeSpan.parse(text), range.contains(duration) else { return .failure(.form) }
        return .success(duration)
      })
  }
}

extension ValueKind where Value == String {
  /// One line of text; `limit` counts bytes of UTF-8.
  public static func text(upTo limit: Int) -> ValueKind {
    ValueKind(
      "a text of at most \(limit) bytes", show: { $0 },
      parse: { text in
        let isPlain = text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
        return isPlain && text.utf8.count <= limit ? .success(text) : .failure(.form)
      })
  }

  /// The absolute path of a file. With `isSocket`, the maximum length is that of a Unix socket's address.
  public static func path(isSocket: Bool = false) -> ValueKind {
    let limit = isSocket ? 107 : 4095
    return ValueKind(
      "an absolute path of at most \(limit) bytes", show: { $0 },
      parse: { text in
        text.hasPrefix("/") && text.utf8.count <= limit ? .success(text) : .failure(.form)
      })
  }
}

extension ValueKind where Value: RawRepresentable<String> & CaseIterable {
  /// A word of an enumeration.
  public static var choice: ValueKind { choice(of: Array(Value.allCases)) { $0.rawValue } }
}

extension ValueKind {
  /// One of several values, each with its own word.
  public static func choice(of values: [Value], _ word: @escaping @Sendable (Value) -> String) -> ValueKind {
    ValueKind(
      values.map(word).listed("or"), show: word,
      parse: { text in
        values.first { word($0) == text }.map { .success($0) } ?? .failure(.form)
      })
  }
}

extension ValueKind {
  /// One or more words of an enumeration, in any order, separated by spaces or commas.
  public static func list<Element>() -> ValueKind
  where Value == [Element], Element: RawRepresentable<String> & CaseIterable & Sendable & Equatable {
    let words = Element.allCases.map(\.rawValue)
    let form = "one or more of \(words.listed("and"))"
    return ValueKind(
      form, show: { $0.map(\.rawValue).joined(separator: " ") },
      parse: { text in
        var elements: [Element] = []
        for word in text.split(whereSeparator: { $0 == " " || $0 == "," || $0 == "\t" }) {
          guard let element = Element(rawValue: String(word)) else { return .failure(.form) }
          if !elements.contains(element) { elements.append(element) }
        }
        return elements.isEmpty ? .failure(.form) : .success(elements)
      })
  }

  /// Words with a syntax of the section, separated by spaces or commas; of words with equal keys the last counts.
  ///
  /// - Parameters:
  ///   - form: completes "Takes …".
  ///   - limit: maximum number of words.
  ///   - key: the subject of a word.
  ///   - show: formats an element so that `parse` returns it.
  ///   - parse: returns nil for an invalid word.
  public static func words<Element: Sendable & Equatable, Key: Hashable>(
    _ form: String, upTo limit: Int, key: @escaping @Sendable (Element) -> Key,
    show: @escaping @Sendable (Element) -> String, parse: @escaping @Sendable (String) -> Element?
  ) -> ValueKind where Value == [Element] {
    ValueKind(
      form, show: { $0.map(show).joined(separator: " ") },
      parse: { text in
        var elements: [Element] = []
        for word in text.split(whereSeparator: { $0 == " " || $0 == "," || $0 == "\t" }) {
          guard let element = parse(String(word)) else { return .failure(.form) }
          elements.removeAll { key($0) == key(element) }
          elements.append(element)
        }
        guard elements.count <= limit else { return .failure(.because("it has more than \(limit) elements")) }
        return elements.isEmpty ? .failure(.form) : .success(elements)
      })
  }

  /// A kind that also accepts an empty value.
  public static func optional<Wrapped>(_ kind: ValueKind<Wrapped>) -> ValueKind where Value == Wrapped? {
    ValueKind(
      "\(kind.form), or nothing", show: { $0.map(kind.show) ?? "" },
      parse: { text in
        kind.parse(text).map { $0 }
      })
  }
}

extension ValueKind {
  /// A kind that also accepts a word that turns the setting off.
  public static func either<Wrapped>(_ kind: ValueKind<Wrapped>, or word: String) -> ValueKind where Value == Wrapped? {
    ValueKind(
      "\(kind.form), or \(word)", show: { $0.map(kind.show) ?? word },
      parse: { text in text == word ? .success(nil) : kind.parse(text).map { $0 } })
  }
}

extension [String] {
  /// Formats `a, b or c`.
  fileprivate func listed(_ conjunction: String) -> String {
    guard count > 1, let last else { return first ?? "" }
    return dropLast().joined(separator: ", ") + " \(conjunction) " + last
  }
}
