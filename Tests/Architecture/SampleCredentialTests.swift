import Foundation
import Testing

@Suite("The sample credential")
struct SampleCredentialTests {
  @Test("The sample credential is a MOSIP credential of about 10 KB with text in three scripts, a photo and a proof")
  func looksReal() throws {
    let text = try House.read("config/credential.json").text
    #expect((10_000...10_500).contains(text.utf8.count))
    let record = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    let wrapper = try #require(record["verifiableCredential"] as? [String: Any])
    let credential = try #require(wrapper["credential"] as? [String: Any])
    #expect((credential["type"] as? [String])?.contains("MOSIPVerifiableCredential") == true)
    let subject = try #require(credential["credentialSubject"] as? [String: Any])
    let names = try #require(subject["fullName"] as? [[String: String]])
    #expect(names.map { $0["language"] } == ["eng", "hin", "ara"])
    #expect(names.dropFirst().allSatisfy { $0["value"]?.unicodeScalars.contains { !$0.isASCII } == true })
    let face = try #require(subject["face"] as? String)
    let image = Data(base64Encoded: String(face.drop { $0 != "," }.dropFirst()))
    #expect(image?.starts(with: [0xFF, 0xD8]) == true)
    let proof = try #require(credential["proof"] as? [String: Any])
    #expect((proof["jws"] as? String)?.contains("..") == true)
  }
}
