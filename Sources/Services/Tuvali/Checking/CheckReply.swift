import CommandLine
import Common

/// Parses the output of a checker: one verdict, a JSON object on one line of at most `limit` bytes.
public enum CheckReply {
  /// Maximum length of a verdict in bytes, without its line terminator.
  public static let limit = 256 << 10
  /// Maximum length of a stored verdict in bytes; it may exceed `limit` because control characters are escaped.
  static let documentLimit = 512 << 10
  static let reasonLimit = 64
  static let codeLimit = 64
  /// Maximum length of a sentence, in Unicode scalars. A longer sentence is cut.
  static let sentenceLimit = 400
  /// Maximum length of an issuer's name and of a type, in Unicode scalars. A longer one is cut.
  static let nameLimit = 200

  /// Parses everything that a checker sent before it ended the stream.
  public static func verdict(_ bytes: [UInt8]) throws(CheckVerdict.Failure) -> CheckVerdict {
    guard bytes.count <= limit + 1 else { throw .badReply("the answer has more than \(limit) bytes") }
    guard bytes.last == UInt8(ascii: "\n") else { throw .failed }
    return try verdict(inDocument: bytes.dropLast())
  }

  /// Parses a document without line terminator, as in `CheckVerdict.document`.
  public static func verdict(inDocument bytes: some Collection<UInt8>) throws(CheckVerdict.Failure) -> CheckVerdict {
    guard bytes.count <= documentLimit else { throw .badReply("the answer has more than \(documentLimit) bytes") }
    guard !bytes.contains(UInt8(ascii: "\n")) else { throw .badReply("the answer has more than one line") }
    let value: JSONValue
    do throws(JSONReader.Problem) {
      value = try JSONReader.read(Array(bytes))
    } catch {
      throw .badReply("the answer is not JSON (\(error))")
    }
    guard let word = value["verdict"]?.asString.flatMap(CheckVerdict.Word.init(rawValue:)) else {
      throw .badReply("the answer has no known verdict")
    }
    guard case .array(let reasons)? = value["reasons"], reasons.count <= reasonLimit else {
      throw .badReply("the answer has no list of at most \(reasonLimit) reasons")
    }
    let document = Array(JSONWriter.write(value).utf8)
    guard document.count <= documentLimit else { throw .badReply("the document is too long") }
    return CheckVerdict(
      word: word, reasons: try reasons.map(reason), issuer: try name("issuer", in: value),
      type: try name("type", in: value), document: document)
  }

  /// Claims in a document, as JSON; nil if there are none.
  public static func claims(in document: [UInt8]) -> String? {
    guard let value = try? JSONReader.read(document), let claims = value["claims"], claims != .null else { return nil }
    return JSONWriter.write(claims)
  }

  private static func reason(_ value: JSONValue) throws(CheckVerdict.Failure) -> CheckVerdict.Reason {
    guard let code = value["code"]?.asString, let sentence = value["sentence"]?.asString, isCode(code) else {
      throw .badReply("a reason has no code")
    }
    return .init(code: code, sentence: PrintableText.clean(sentence, limit: sentenceLimit))
  }

  /// Whether a code is a valid word of letters and digits, as required for journal and tables.
  private static func isCode(_ text: String) -> Bool {
    (1...codeLimit).contains(text.utf8.count)
      && text.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "0")...UInt8(ascii: "9"):
          true
        default: false
        }
      }
  }

  private static func name(_ member: String, in value: JSONValue) throws(CheckVerdict.Failure) -> String {
    switch value[member] {
    case nil, .null?: return ""
    case .string(let text)?: return PrintableText.clean(text, limit: nameLimit)
    default: throw .badReply("\(member) is not a text")
    }
  }
}
