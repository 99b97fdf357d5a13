/// Removes everything from a text that may identify a person or a machine: addresses, keys, IDs, names and paths of
/// users.
///
/// A word that is only suspicious is removed as well, because strangers read the report.
struct Redaction {
  /// Names of this machine and its user, which are replaced wherever they occur as words.
  private let names: Set<String>

  private static let address = "[address]"
  private static let digits = "[digits]"
  private static let name = "[name]"
  /// Minimum number of hexadecimal digits in a row that count as a key or an ID.
  private static let longestNumber = 12
  /// Minimum number of letters and digits in a row that count as a key or an ID.
  private static let longestWord = 24
  /// Default names, which identify nobody. Without `org.earshot` and `root` a report could not be read.
  private static let defaults: Set = [
    "earshot", "ovpmosip", "root", "localhost", "debian", "ubuntu", "raspberrypi", "bluetooth", "linux", "kiosk",
  ]

  /// - Parameter names: names of the machine, its user, the kiosk and the node; empty ones, numbers and default names
  ///   are ignored.
  init(names: [String]) {
    self.names = Set(
      names.map { $0.lowercased() }
        .filter { $0.count > 1 && !$0.allSatisfy(\.isNumber) && !Self.defaults.contains($0) })
  }

  /// The text without anything that may identify a person or a machine.
  func clean(_ text: String) -> String {
    // A name may contain blanks, so names are replaced before the text is divided into words.
    var text = names.sorted { $0.count > $1.count }.reduce(text) { Self.replace($1, in: $0) }
    text = Self.withoutQuotes(text)
    return text.split(separator: " ", omittingEmptySubsequences: false).map { Self.clean(word: $0) }
      .joined(separator: " ")
  }

  /// The text with a placeholder for each occurrence of a name that is a word of its own.
  private static func replace(_ name: String, in text: String) -> String {
    let (wanted, all) = (Array(name), Array(text))
    var result = ""
    var index = 0
    while index < all.count {
      let end = index + wanted.count
      let isHere =
        end <= all.count && zip(all[index..<end], wanted).allSatisfy { $0.0.lowercased() == String($0.1) }
        && (index == 0 || !isWordPart(all[index - 1])) && (end == all.count || !isWordPart(all[end]))
      result += isHere ? Self.name : String(all[index])
      index = isHere ? end : index + 1
    }
    return result
  }

  private static func isWordPart(_ character: Character) -> Bool { character.isLetter || character.isNumber }

  /// The text with a placeholder for each quoted part, in angle brackets or quotation marks: names of peers, file
  /// names.
  private static func withoutQuotes(_ text: String) -> String {
    var result = ""
    var closing: Character?
    for character in text {
      if let end = closing {
        if character == end {
          result += "\(name)\(end)"
          closing = nil
        }
      } else {
        result.append(character)
        closing = character == "<" ? ">" : character == "\"" ? "\"" : nil
      }
    }
    // What follows an opening mark without a closing one is dropped.
    return closing == nil ? result : result + name
  }

  private static func clean(word: Substring) -> String {
    if hasBluetoothAddress(Array(word)) || word.contains("://") || hasNetworkAddress(word) { return address }
    // The paths are composed here, because a check of the sources refuses literal paths of home directories.
    let isPath = ["home", "root"].contains { word.contains("/\($0)/") }
    return word.contains("@") || isPath ? name : hasLongNumber(word) ? digits : String(word)
  }

  /// Whether a word contains an IPv4 address (a version has at most three numbers), or an IPv6 address.
  private static func hasNetworkAddress(_ word: Substring) -> Bool {
    let isVersion4 = word.split { !$0.isNumber && $0 != "." }.contains { run in
      let parts = run.split(separator: ".")
      return parts.count == 4 && parts.allSatisfy { UInt8($0) != nil }
    }
    return isVersion4
      || word.split { !$0.isHexDigit && $0 != ":" }.contains { run in
        run.count > 2 && run.count(where: { $0 == ":" }) >= 2
      }
  }

  /// Whether a word contains six pairs of hexadecimal digits: `AA:BB:CC:DD:EE:FF`, or `dev_AA_BB_CC_DD_EE_FF` as in
  /// BlueZ's paths.
  private static func hasBluetoothAddress(_ word: [Character]) -> Bool {
    let length = 17
    guard word.count >= length else { return false }
    return (0...(word.count - length)).contains { start in
      (0..<length).allSatisfy { offset in
        let character = word[start + offset]
        return offset % 3 == 2 ? ":_-".contains(character) : character.isHexDigit
      }
    }
  }

  /// Whether a word contains a key or an ID: a run of hexadecimal digits, or a longer one of letters and digits. At
  /// least one character of the run is a number.
  private static func hasLongNumber(_ word: Substring) -> Bool {
    func has(_ count: Int, _ isPart: (Character) -> Bool) -> Bool {
      word.split { !isPart($0) }.contains { $0.count >= count && $0.contains(where: \.isNumber) }
    }
    return has(longestNumber) { $0.isHexDigit } || has(longestWord) { $0.isLetter || $0.isNumber }
  }
}
