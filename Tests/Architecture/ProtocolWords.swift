/// The words of the protocols, which `Host` and `Base` do not know: a room that several protocols share names none.
enum ProtocolWords {
  /// Words that indicate a protocol anywhere in a name, a text or a comment.
  static let forbidden = [
    "wallet", "verifier", "visitor", "credential", "tuvali", "dialect", "chunk", "tvv_", "tvw_", "tuv_", "openid",
    "bitchat", "mesh", "courier", "thali", "pblec", "apptimist", "nostr",
  ]
  /// Words that also occur inside others: they count only as a complete word of a name.
  static let forbiddenAlone = ["asn", "noise"]

  /// Terms of other specifications that contain such a word. Each is removed before the rest is checked.
  static let exceptions = [
    // D-Bus: the identity of a caller.
    Exception("GetConnectionCredentials"), Exception("Credentials", below: "Sources/Host/DBus/"),
    Exception("credentials", below: "Sources/Host/DBus/"),
    Exception("credentials", below: "Sources/Host/Hosting/Manager/SoleCaller.swift"),
    // systemd: the delivery of a unit's secrets.
    Exception("CREDENTIALS_DIRECTORY"), Exception("LoadCredentialEncrypted"), Exception("LoadCredential"),
    Exception("credential", below: "Sources/Host/Store/StoreKey.swift"),
    Exception("Credential", below: "Sources/Host/Store/StoreKey.swift"),
    // Every protocol may have dialects, and the journal has one field for them all.
    Exception("dialect", below: "Sources/Host/Journal/LogField.swift"),
    Exception("DIALECT", below: "Sources/Host/Journal/LogField.swift"),
    // The Noise Protocol Framework, which protocols use in part.
    Exception("Noise", below: "Sources/Base/Noise/"),
  ]

  struct Exception {
    let word: String
    let folder: String

    init(_ word: String, below folder: String = "") {
      self.word = word
      self.folder = folder
    }
  }

  /// Each line of `Host` and `Base` that contains a word of a protocol, and each such path.
  static func broken(_ files: [SourceFile]) -> [String] {
    files.filter { $0.layer == .host || $0.layer == .base }.flatMap { file in
      let lines = [file.path] + file.text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
      return lines.enumerated().compactMap { number, line in
        word(in: line, of: file.path).map { "\(file.path):\(number): the word \($0)" }
      }
    }
  }

  private static func word(in line: String, of path: String) -> String? {
    var line = line
    for exception in exceptions where path.hasPrefix(exception.folder) {
      line = line.split(separator: exception.word, omittingEmptySubsequences: false).joined(separator: " ")
    }
    let small = line.lowercased()
    if let found = forbidden.first(where: small.contains) { return found }
    let words = Set(words(of: line))
    return forbiddenAlone.first(where: words.contains)
  }

  /// `readASNHeader` is `read`, `asn` and `header`.
  static func words(of line: String) -> [String] {
    var words: [String] = []
    var current = ""
    let characters = Array(line)
    for (index, character) in characters.enumerated() {
      let startsWord =
        character.isUppercase
        && (index > 0 && characters[index - 1].isLowercase
          || index + 1 < characters.count && characters[index + 1].isLowercase)
      if !character.isLetter || startsWord {
        if !current.isEmpty { words.append(current.lowercased()) }
        current = ""
      }
      if character.isLetter { current.append(character) }
    }
    return current.isEmpty ? words : words + [current.lowercased()]
  }
}
