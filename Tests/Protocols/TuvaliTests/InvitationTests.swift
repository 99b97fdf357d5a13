import Bytes
import Crypto
import Testing

@testable import Tuvali

/// Facts: tuvali.md section 1.
@Suite("Invitations of Tuvali")
struct InvitationTests {
  static let hex = "e7228c13ace70a0fd63200f49ac2c314df33a2c5e393e0cc9c6bd8ad28544769"

  static let accepted: [(text: String, name: String)] = [
    ("OPENID4VP://connect?name=OVP&key=\(hex)", "OVP"),
    ("OPENID4VP://connect:?name=OVP&key=\(hex)", "OVP"),
    ("openid4vp://connect?name=OVP&key=\(hex)", "OVP"),
    ("OpenID4VP://Connect?name=OVP&key=\(hex)", "OVP"),
    ("OPENID4VP://connect?key=\(hex)&name=OVP", "OVP"),
    ("OPENID4VP://connect?v=2&name=OVP&x&key=\(hex)&y=%ZZ&v=3&=", "OVP"),
    ("OPENID4VP://connect?name=OVP&&key=\(hex.uppercased())&", "OVP"),
    ("OPENID4VP://connect?name=A%20B%26C%3d&key=\(hex)", "A B&C="),
    ("OPENID4VP://connect?name=a+b&key=\(hex)", "a+b"),
    ("OPENID4VP://connect?name=a=b&key=\(hex)", "a=b"),
    ("OPENID4VP://connect?name=a?b&key=\(hex)", "a?b"),
    ("OPENID4VP://connect?name=OVP_1&key=\(hex)", "OVP_1"),
    ("OPENID4VP://connect?name=Z%C3%BCri&key=\(hex)", "Züri"),
    ("OPENID4VP://connect?name=FOURTEEN+BYTES&key=\(hex)", "FOURTEEN+BYTES"),
    ("OPENID4VP://connect?name=a\u{301}&key=\(hex)", "a\u{301}"),
    (#"{"cid":"OVP","pk":"\#(hex)"}"#, "OVP"),
    ("{ \"pk\" : \"\(hex)\" ,\r\n\t\"x\":\"y\", \"cid\" : \"OVP\" } \n", "OVP"),
    (#"{"cid":"\"\\\/\b\f\n\r\t","pk":"\#(hex)"}"#, "\"\\/\u{8}\u{C}\n\r\t"),
    (#"{"cid":"\u0041\u00FC\u20ac","pk":"\#(hex)"}"#, "Aü€"),
  ]

  @Test(
    "Both spellings of an invitation, any order, either case and unknown parameters are accepted", arguments: accepted)
  func reads(text: String, name: String) throws {
    let invitation = try Invitation(reading: text)
    #expect(invitation.name == name)
    #expect(Hex.encode(invitation.key.bytes) == Self.hex)
    for form in [Invitation.Form.uri, .uriWithColon, .json] {
      #expect(try Invitation(reading: invitation.text(as: form)) == invitation)
    }
  }

  static let refused: [(text: String, why: String)] = [
    ("", "no parameters"),
    ("OPENID4VP://connect", "no parameters"),
    ("OPENID4VP://connect?", "no parameter name"),
    ("OPENID4VP://connect?key=\(hex)", "no parameter name"),
    ("OPENID4VP://connect?name=OVP", "no parameter key"),
    ("OPENID4VP://connect?Name=OVP&key=\(hex)", "no parameter name"),
    ("OPENID4VP://connect?name&key=\(hex)", "no parameter name"),
    ("OPENID4VP://connect?name=&key=\(hex)", "no name"),
    ("OPENID4VP://connect?name=OVP&key=", "64 hexadecimal digits"),
    ("OPENID4VP://connect?name=OVP&key=\(hex.dropLast(2))", "64 hexadecimal digits"),
    ("OPENID4VP://connect?name=OVP&key=\(hex)00", "64 hexadecimal digits"),
    ("OPENID4VP://connect?name=OVP&key=\(hex.dropLast())g", "64 hexadecimal digits"),
    ("OPENID4VP://connect?name=OVP&key=\(hex.dropLast(2))+1", "64 hexadecimal digits"),
    ("OPENID4VP://connect?name=OVP&key=\(hex)#end", "64 hexadecimal digits"),
    ("OPENID4VP://connect?name=OVP&name=OVP&key=\(hex)", "name twice"),
    ("OPENID4VP://connect?name=OVP&key=\(hex)&key=\(hex)", "key twice"),
    ("OPENID4VP://connect?name=FIFTEENBYTENAME&key=\(hex)", "longer than 14 bytes"),
    ("OPENID4VP://connect?name=%C3%BC%C3%BC%C3%BC%C3%BC%C3%BC%C3%BC%C3%BC1&key=\(hex)", "longer than 14 bytes"),
    ("OPENID4VP://connect?name=%FF&key=\(hex)", "name is not UTF-8"),
    ("OPENID4VP://connect?name=%4&key=\(hex)", "name is not UTF-8"),
    ("OPENID4VP://connect?name=%+1&key=\(hex)", "name is not UTF-8"),
    ("OPENID4VP://connect?name=%&key=\(hex)", "name is not UTF-8"),
    ("OPENID4VP://connect::?name=OVP&key=\(hex)", "does not begin"),
    ("OPENID4VP://authorize?name=OVP&key=\(hex)", "does not begin"),
    ("https://connect?name=OVP&key=\(hex)", "does not begin"),
    ("OPENID4VP:connect?name=OVP&key=\(hex)", "does not begin"),
    (" OPENID4VP://connect?name=OVP&key=\(hex)", "does not begin"),
    ("OPENID4VP://connect?name=OVP&key=\(hex)&x=" + String(repeating: "x", count: 500), "longer than 512 bytes"),
    ("{", "like JSON"),
    ("{}", "no parameter cid"),
    (#"{"name":"OVP","key":"\#(hex)"}"#, "no parameter cid"),
    (#"{"cid":"OVP"}"#, "no parameter pk"),
    (#"{"cid":"OVP","pk":"\#(hex)"}{"#, "like JSON"),
    (#"{"cid":"OVP","pk":"\#(hex)",}"#, "like JSON"),
    (#"{"cid":"OVP" "pk":"\#(hex)"}"#, "like JSON"),
    (#"{"cid":"OVP","cid":"OVP","pk":"\#(hex)"}"#, "like JSON"),
    (#"{"cid":"OVP","pk":"\#(hex)","n":1}"#, "like JSON"),
    (#"{"cid":"OVP","pk":{"x":"y"}}"#, "like JSON"),
    (#"{"cid":"OVP","pk":"\#(hex)"#, "like JSON"),
    (#"{"cid":"\u004","pk":"\#(hex)"}"#, "like JSON"),
    (#"{"cid":"\u+041","pk":"\#(hex)"}"#, "like JSON"),
    (#"{"cid":"\u-000","pk":"\#(hex)"}"#, "like JSON"),
    (#"{"cid":"\ud83d\ude00","pk":"\#(hex)"}"#, "like JSON"),
    (#"{"cid":"\x","pk":"\#(hex)"}"#, "like JSON"),
    ("{\"cid\":\"a\nb\",\"pk\":\"\(hex)\"}", "like JSON"),
    (#"{"cid":"\"#, "like JSON"),
  ]

  @Test("An invalid invitation is refused with TVW_CON_001 and the reason", arguments: refused)
  func refuses(text: String, why: String) {
    let error = refusal { try Invitation(reading: text) }
    #expect(error?.code == "TVW_CON_001")
    #expect(error?.sentence.contains(why) == true, "\(error?.sentence ?? "")")
  }

  @Test("All except unreserved characters of the name in an invitation are percent-encoded")
  func percentEncoding() throws {
    let key = try X25519.PublicKey(Hex.decode(Self.hex))
    let text = { (name: String) in try Invitation(name: name, key: key).text(as: .uri) }
    #expect(try text("aZ09-._~") == "OPENID4VP://connect?name=aZ09-._~&key=\(Self.hex)")
    #expect(try text("a+b c/ü%") == "OPENID4VP://connect?name=a%2Bb%20c%2F%C3%BC%25&key=\(Self.hex)")
  }

  @Test("Quotes, backslashes and control characters in an invitation's JSON are escaped")
  func jsonEscapes() throws {
    let key = try X25519.PublicKey(Hex.decode(Self.hex))
    let text = try Invitation(name: "\"\\/\u{1}\u{1F}ü", key: key).text(as: .json)
    #expect(text == #"{"cid":"\"\\/\u0001\u001fü","pk":"\#(Self.hex)"}"#)
    #expect(try Invitation(reading: text).name == "\"\\/\u{1}\u{1F}ü")
  }
}
