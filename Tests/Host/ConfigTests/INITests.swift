import Testing

@testable import Config

@Suite struct INITests {
  /// The entries as `section.key=value@line`.
  private static func entries(_ text: String) -> [String] {
    INI(Array(text.utf8), file: "f").entries.map { "\($0.section).\($0.key)=\($0.value)@\($0.line)" }
  }

  @Test(
    "Configuration files are parsed by systemd's rules",
    arguments: [
      ("", []),
      ("[A]\nk=v\n", ["A.k=v@2"]),
      ("[A]\nk=v", ["A.k=v@2"]),
      ("[A]\r\n  k = v w \t\r\n", ["A.k=v w@2"]),
      ("\u{FEFF}[A]\nk=v", ["A.k=v@2"]),
      ("# c\n; c\n\n[A]\n  # c\n#k=1\nk=2\n", ["A.k=2@7"]),
      ("[A]\nk=\n", ["A.k=@2"]),
      ("[A]\nk=a=b=\n", ["A.k=a=b=@2"]),
      ("[A]\nk=v # no comment\n", ["A.k=v # no comment@2"]),
      ("[A]\nk=a \\\n  b \\\n  c\nl=1", ["A.k=a  b  c@2", "A.l=1@5"]),
      ("[A]\nk=a\\\n# between\n; between\nb\n", ["A.k=a b@2"]),
      ("[A]\nk=a\\\\\nl=b", ["A.k=a\\\\@2", "A.l=b@3"]),
      ("[A]\nk=a\\\n\nl=b", ["A.k=a@2", "A.l=b@4"]),
      ("[A]\nk=a\\", ["A.k=a@2"]),
      ("[A]\nk=1\n[B]\nk=2\n[A]\nk=3", ["A.k=1@2", "B.k=2@4", "A.k=3@6"]),
      ("[A B/é]\nk=v", ["A B/é.k=v@2"]),
      ("[A]\nk=\"a b\"\nl='a b'\nm=\" a \"", ["A.k=a b@2", "A.l=a b@3", "A.m= a @4"]),
      ("[A]\nk=\"\"\nl='\nm='tis\nn=a \"b\"", ["A.k=@2", "A.l='@3", "A.m='tis@4", "A.n=a \"b\"@5"]),
      ("[A]\nk='a' 'b'\nl='\"a\"'\nm=\"it's\"", ["A.k='a' 'b'@2", "A.l=\"a\"@3", "A.m=it's@4"]),
    ] as [(String, [String])])
  func rules(text: String, expected: [String]) {
    #expect(Self.entries(text) == expected)
    #expect(INI(Array(text.utf8), file: "f").complaints == [])
  }

  @Test(
    "An unusable configuration line is reported with its number, and the other lines are used",
    arguments: [
      ("k=v\n[A]\nl=w", "f:1: This setting precedes the first [Section] and is ignored.", ["A.l=w@3"]),
      ("[A]\nword\nl=w", "f:2: A setting is written Key=Value; this line is ignored.", ["A.l=w@3"]),
      ("[A]\n=v\nl=w", "f:2: A setting is written Key=Value; this line is ignored.", ["A.l=w@3"]),
      ("[A\nk=v\n[B]\nl=w", "f:1: A section is written [Name]; the lines under this one are ignored.", ["B.l=w@4"]),
      ("[]\n[B]\nl=w", "f:1: A section is written [Name]; the lines under this one are ignored.", ["B.l=w@3"]),
      ("[A]\nk=\0\nl=w", "f:2: This line is not UTF-8 text and is ignored.", ["A.l=w@3"]),
    ] as [(String, String, [String])])
  func complaints(text: String, complaint: String, expected: [String]) {
    #expect(INI(Array(text.utf8), file: "f").complaints.map(\.description) == [complaint])
    #expect(Self.entries(text) == expected)
  }

  @Test(
    "A configuration value with an unmatched quotation mark at its start is reported and used unchanged",
    arguments: ["\"", "\"a", "\"a\" b", "\"a\" \"b\""])
  func unclosed(value: String) {
    let entries = INI(Array("[A]\nk=\(value)\nl=\"w\"".utf8), file: "f").entries
    #expect(entries.map(\.value) == [value, "w"] && entries.map(\.isUnclosed) == [true, false])
  }

  @Test("Bytes that are not UTF-8 invalidate only their own line of a configuration file")
  func notText() {
    let ini = INI(Array("[A]\nk=".utf8) + [0xFF, 0xFE, 0x0A] + Array("l=w".utf8), file: "f")
    #expect(ini.complaints.map(\.line) == [2])
    #expect(ini.entries.map(\.key) == ["l"])
    let early = INI([0xFF, 0x0A] + Array("k=v\n".utf8), file: "f")
    #expect(early.complaints.map(\.line) == [1, 2])
  }

  @Test("No combination of up to 5 special characters crashes the configuration parser")
  func allShortFiles() {
    let alphabet: [UInt8] = [0x0A, 0x20, 0x23, 0x3D, 0x5B, 0x5C, 0x5D, 0x61, 0xC3]
    var count = 0
    for length in 0...5 {
      var digits = [Int](repeating: 0, count: length)
      repeat {
        count += INI(digits.map { alphabet[$0] }, file: "f").entries.count
        var place = 0
        while place < length {
          digits[place] += 1
          if digits[place] < alphabet.count { break }
          digits[place] = 0
          place += 1
        }
        if place == length { break }
      } while true
    }
    // A valid entry needs at least six characters (`[A]`, a line break, and `k=`), so five characters give no entry.
    #expect(count == 0)
  }
}
