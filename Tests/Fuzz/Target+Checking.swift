import Checking
import CommandLine

extension Target {
  /// The output of the credential checker, which has read a hostile credential.
  static let checking = [
    Target(
      name: "json",
      seeds: { ["{\"a\":[1,-2.5e3,\"\\ud83d\\ude00\",null,true],\"b\":{}}", "[[[[]]]]"].map { Array($0.utf8) } },
      run: { bytes in
        guard let value = taken({ try JSONReader.read(Array(bytes)) }) else { return }
        let text = JSONWriter.write(value)
        promise(taken { try JSONReader.read(Array(text.utf8)) } == value, "JSON is read as it was written")
        promise(!text.unicodeScalars.contains { $0.value < 0x20 }, "what is written has no control character")
      }),
    Target(
      name: "check-reply",
      seeds: {
        let reason = "{\"code\":\"expired\",\"sentence\":\"The credential has expired.\"}"
        return [
          "{\"verdict\":\"valid\",\"reasons\":[],\"issuer\":\"Office\",\"type\":\"T\",\"claims\":{\"n\":\"A\"}}\n",
          "{\"verdict\":\"expired\",\"reasons\":[\(reason)],\"issuer\":null,\"type\":null,\"claims\":null}\n",
        ].map { Array($0.utf8) }
      },
      run: { bytes in
        guard let verdict = taken({ try CheckReply.verdict(Array(bytes)) }) else { return }
        promise(bytes.last == 0x0A && !bytes.dropLast().contains(0x0A), "a verdict is one line")
        promise(verdict.reasons.count <= 64 && verdict.issuer.unicodeScalars.count <= 201, "texts are bounded")
        promise(
          taken { try CheckReply.verdict(inDocument: verdict.document) } == verdict, "a verdict is stored as it is")
      }),
  ]
}
