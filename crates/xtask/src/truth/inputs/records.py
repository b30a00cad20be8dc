import json

records = [{"name": f"record {number}", "tags": [f"tag {number % tag}" for tag in range(1, 6)], "value": number / 7}
           for number in range(4000)]
text = json.dumps(records)
for _ in range(3):
    again = json.loads(text)
print(len(text), len(again))
